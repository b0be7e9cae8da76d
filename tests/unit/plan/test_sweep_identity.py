"""Identity of a sweep: the same question is the same sweep, any other is not."""

from __future__ import annotations

from dataclasses import replace

from making import make_cell
from trainmark.plan.machine import Gpu, Machine
from trainmark.plan.sweep import SETTLED, content_id, key_of, machine_facts
from trainmark.runfolder.records import Outcome

MACHINE = Machine(
    hostname="a", system="Linux", cpu="EPYC", num_cores=2, memory_bytes=1 << 30, gpus=(), driver=None,
    frameworks={"torch": "2.11"}, compiler=None,
)  # fmt: skip


def test_content_follows_from_cells_order_and_settings() -> None:
    one, two = make_cell().to_json(), make_cell(repeat=2).to_json()
    base = content_id([one, two], {"measure": 1})
    assert content_id([dict(reversed(one.items())), two], {"measure": 1}) == base
    assert len({base, content_id([two, one], {"measure": 1}), content_id([one], {}), content_id([one, two], {})}) == 4


def test_an_equal_machine_takes_a_sweep_up_and_another_does_not() -> None:
    assert machine_facts(replace(MACHINE, hostname="b", memory_bytes=1)) == machine_facts(MACHINE)
    assert machine_facts(replace(MACHINE, frameworks={"torch": "2.12"})) != machine_facts(MACHINE)
    assert machine_facts(replace(MACHINE, gpus=(Gpu(name="H200", memory_bytes=1),))) != machine_facts(MACHINE)


def test_repeats_are_runs_of_their_own() -> None:
    assert key_of(make_cell(repeat=2))[0] == key_of(make_cell())[0]
    assert key_of(make_cell(repeat=2)) != key_of(make_cell())


def test_what_answers_nothing_is_made_again() -> None:
    assert set(Outcome) - SETTLED == {Outcome.KILLED, Outcome.HANG}
