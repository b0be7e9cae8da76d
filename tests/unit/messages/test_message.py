"""A message is said in two languages, recorded, and read again from any file."""

from __future__ import annotations

from trainmark.messages.endings import killed, named_signal, unreadable
from trainmark.messages.machine import foreign_gpu_process, name_gpu, throttled
from trainmark.messages.message import Message
from trainmark.messages.ranks import name_rank, no_step, rank_killed, rank_reason, rank_stopped
from trainmark.messages.training import steps_done

RANK = name_rank(rank=1, pid=9, host="gpu2")


def test_a_message_inside_another_is_said_in_the_same_language() -> None:
    told = rank_killed(who=RANK, how=named_signal(name="SIGTERM"))
    assert told.english == "rank 1 (pid 9 on gpu2) was killed by SIGTERM"
    assert told.chinese == "rank 1（gpu2 上的 pid 9）被终止：SIGTERM"
    assert told.in_language("en") == told.english
    assert told.in_language("zh") == told.chinese


def test_optional_parts_and_lists() -> None:
    causes = [rank_stopped(who=RANK), rank_stopped(who=name_rank(rank=2, pid=None, host=None))]
    assert no_step(seconds=60.4, usual_s=None, causes=[]).english == "no step for 60 s"
    told = no_step(seconds=60.4, usual_s=0.5, causes=causes)
    assert told.english == "no step for 60 s (usual step 500 ms): rank 1 (pid 9 on gpu2) is stopped, rank 2 is stopped"
    assert told.chinese == (
        "已有 60 s 没有完成任何一步（通常一步用时 500 ms）：rank 1（gpu2 上的 pid 9）处于停止状态，rank 2 处于停止状态"
    )


def test_alternatives_plurals_and_units() -> None:
    assert name_rank(rank=1, pid=None, host="gpu2").english == "rank 1 (on gpu2)"
    assert name_rank(rank=1, pid=9, host=None).english == "rank 1 (pid 9)"
    assert name_rank(rank=1, pid=None, host=None).english == "rank 1"
    assert steps_done(steps=1, epochs=None).english == "1 step done"
    assert steps_done(steps=50, epochs=0.5).english == "50 steps done, 0.5 epochs"
    gpu = name_gpu(index=0, host=None, rank=None)
    shared = foreign_gpu_process(gpu=gpu, shared=2, samples=3, name=None, pid=5, used_bytes=3 << 30, more=None)
    assert "by a process (pid 5) using 3.0 GiB; end it" in shared.english


def test_words_of_ours_are_translated() -> None:
    told = throttled(
        gpu=name_gpu(index=0, host="gpu2", rank=3),
        share=0.5,
        samples=8,
        reasons=["hardware slowdown"],
        clock_mhz=None,
        free_mhz=None,
        max_mhz=None,
        actions=["check the power supply", "check fans and air flow"],
    )
    assert "(hardware slowdown); check the power supply and check fans and air flow, then run again" in told.english
    assert told.chinese.startswith("gpu2 的 GPU 0（rank 3）：8 次采样中有 50% 处于降频状态（硬件降速）；请检查供电")


def test_a_reason_is_recorded_beside_other_facts() -> None:
    told = rank_reason(rank=3, reason=killed(how=named_signal(name="SIGTERM")))
    record = told.to_reason()
    assert record["reason"] == "rank 3: killed by SIGTERM"
    assert (record["reason_code"], record["reason_params"]["rank"]) == ("rank-reason", 3)
    assert Message.from_reason({**record, "outcome": "killed"}).chinese == "rank 3：终止信号：SIGTERM"


def test_what_an_older_version_recorded_stays_english() -> None:
    for record in ({"reason": "no step for 60 s"}, {"reason": "no step for 60 s", "reason_code": "of-a-newer-version"}):
        old = Message.from_reason(record)
        assert old.english == old.chinese == "no step for 60 s"


def test_the_recorded_sentence_stays_as_it_was() -> None:
    record = {**steps_done(steps=3, epochs=None).to_json(), "message": "3 steps were done"}
    assert Message.from_json(record).english == "3 steps were done"
    assert Message.from_json(record).chinese == "已完成 3 步"


def test_any_file_can_be_read() -> None:
    strange = ({}, {"code": 5, "params": 7, "message": []}, {"code": "no-step", "params": {"seconds": "x"}})
    for value in (*strange, {"code": "no-step", "params": [], "message": "old"}):
        read = Message.from_json(value)
        assert read.english == read.chinese == (value.get("message") or "")
    deep: dict[str, object] = {"code": "others-wait", "message": "deep"}
    for _ in range(50):
        deep = {"code": "others-wait", "params": {"cause": deep}, "message": "deep"}
    assert "deep" in Message.from_json(deep).chinese


def test_what_stands_in_a_parameter_is_not_a_format_string() -> None:
    told = unreadable(file="«{why}|x»", why="{file!r:>9}")
    assert told.english == "the folder cannot be read: «{why}|x»: {file!r:>9}"
