"""The error that ended a command, in what its processes and its launcher printed."""

from __future__ import annotations

import pytest

from trainmark.launch.endings import judge_command

BANNER = """\
E1116 03:12:56.248000 29508 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-16_03:12:56
  host      : node7
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 29530)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_03:12:56
  host      : node7
  rank      : 1 (local_rank: 1)
  exitcode  : CODE (pid: 29531)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
OTHER = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 7, in <module>
[rank0]: RuntimeError: Connection closed by peer [127.0.0.1]:17585
"""
OWN = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 5, in load
[rank1]: KeyError: 'labels'

[rank1]: During handling of the above exception, another exception occurred:

[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 9, in <module>
[rank1]: ValueError: labels are missing
"""


def reason(output: str, returncode: int = 1) -> str:
    end = judge_command(returncode=returncode, last_output=output.encode(), bad_loss=None)
    return str(end["reason"])


@pytest.mark.parametrize("parts", [(OWN, OTHER), (OTHER, OWN)], ids=["cause first", "cause last"])
def test_the_rank_that_failed_first_explains_a_failing_torchrun(parts: tuple[str, str]) -> None:
    text = reason("".join(parts) + BANNER.replace("CODE", "1"))
    assert text == "the command ended with exit code 1: rank 1: ValueError: labels are missing"


def test_ranks_that_do_not_name_themselves() -> None:
    text = (OTHER + OWN).replace("[rank0]: ", "").replace("[rank1]: ", "") + BANNER.replace("CODE", "1")
    assert reason(text) == "the command ended with exit code 1: rank 1: ValueError: labels are missing"


def test_a_rank_that_a_signal_ended() -> None:
    assert reason(BANNER.replace("CODE", "-11")) == "rank 1 (pid 29531 on node7) was killed by SIGSEGV"


def test_accelerate_names_its_command_only() -> None:
    output = OWN.replace("[rank1]: ", "") + (
        'Traceback (most recent call last):\n  File "accelerate", line 8\n'
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n"
    )
    assert reason(output) == "the command ended with exit code 1: ValueError: labels are missing"


def test_a_program_without_a_traceback_has_its_last_line() -> None:
    assert reason("starting\nno such data set\n") == "the command ended with exit code 1: no such data set"
