"""The baseline file of `check`: what is read, refused, written and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.analyse.accepted import Accepted, merge
from trainmark.analyse.tolerance import DEFAULTS, Metric, tolerances_of
from trainmark.controller.baseline_file import read_baseline, write_baseline
from trainmark.errors import InputError


def make_accepted(**changes: object) -> Accepted:
    facts: dict[str, object] = {
        "name": "resnet50 torch reference amp, 1 x 8, batch 32",
        "work": "0123456789ab",
        "machine": "ba9876543210",
        "machine_facts": {"cpu": 'a "CPU" \\ 2', "gpus": "GPU-1, GPU-2"},
        "unit": "images",
        "values": {
            Metric.THROUGHPUT: (1528.123456789, 1530.0, 1.5e9),
            Metric.MEMORY: (8.0 * 2**30,),
            Metric.ACCURACY: (0.759,),
        },
        "metric_name": "top1",
        "suite": "nightly",
        "last_run": "20261116T000000-resnet50-012345-r3-abcd",
        "facts": {"commit": "1a2b3c4d with changes", "host": "höst", "measured": "2026-11-16T02:53:35Z"},
    }
    return Accepted(**{**facts, **changes})  # type: ignore[arg-type]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "baseline.toml"
    cells = [make_accepted(), make_accepted(machine=None, machine_facts={}, suite=None, metric_name=None, facts={})]
    write_baseline(path, cells)
    found = read_baseline(path).cells
    assert [cell.key for cell in found] == [cell.key for cell in cells]
    assert found[0].values[Metric.THROUGHPUT] == pytest.approx((1528.123456789, 1530.0, 1.5e9), rel=1e-8)
    assert found[0].machine_facts == cells[0].machine_facts
    assert found[0].facts == cells[0].facts
    assert (found[0].metric_name, found[0].suite, found[0].last_run) == ("top1", "nightly", cells[0].last_run)
    assert Metric.FIRST_STEP not in found[0].values


def test_strange_texts_do_not_break_the_file(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    write_baseline(path, [make_accepted(name='a"]\n[[cell]]\x00\x1b\x7f\ud800 名前')])
    (cell,) = read_baseline(path).cells
    assert cell.name.startswith('a"]\ufffd[[cell]]')
    assert cell.name.endswith("名前")


def test_an_update_keeps_the_user_s_part_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    write_baseline(path, [make_accepted()])
    before = path.read_bytes()
    mine = b'# mine\r\n[[tolerance]] # tight\r\ncell = "resnet50 * amp, *"\nthroughput=0.01\n\n'
    cut = before.index(b"# ---- measured")
    path.write_bytes(before[:cut] + mine + before[cut:])
    write_baseline(path, [make_accepted(values={Metric.THROUGHPUT: (1.0,)})])
    after = path.read_bytes()
    assert after.startswith(before[:cut] + mine + b"# ---- measured")
    assert read_baseline(path).cells[0].values == {Metric.THROUGHPUT: (1.0,)}


def test_without_the_line_an_update_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text("schema = 1\n")
    with pytest.raises(InputError, match="no line that begins with"):
        write_baseline(path, [make_accepted()])
    assert path.read_text() == "schema = 1\n"


def test_a_cell_above_the_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    write_baseline(path, [make_accepted()])
    path.write_text(path.read_text().replace("# ---- measured", "[[cell]]\nname = 'x'\n# ---- measured"))
    with pytest.raises(InputError, match="above the line"):
        write_baseline(path, [make_accepted()])


def test_blocks_are_sorted_and_replaced_by_cell_and_machine() -> None:
    one, two, other = make_accepted(name="b"), make_accepted(name="a", work="w2"), make_accepted(name="b", machine="m2")
    newer = make_accepted(name="b", last_run="newer")
    found = merge([one, two, other], [newer])
    assert [(cell.name, cell.machine, cell.last_run) for cell in found] == [
        ("a", "ba9876543210", two.last_run),
        ("b", "ba9876543210", "newer"),
        ("b", "m2", other.last_run),
    ]


def test_later_tolerances_override(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    write_baseline(path, [make_accepted()])
    rules = (
        "[[tolerance]]\nthroughput = 0.1\nmemory = 2\n"
        '[[tolerance]]\ncell = "resnet50*"\nthroughput = 0.01\nfirst_step = false\n'
    )
    path.write_text(path.read_text().replace("# ---- measured", f"{rules}# ---- measured"))
    found = tolerances_of(make_accepted().name, read_baseline(path).rules)
    assert found == {**DEFAULTS, Metric.THROUGHPUT: 0.01, Metric.MEMORY: 2, Metric.FIRST_STEP: None}
    assert tolerances_of("tsm", read_baseline(path).rules)[Metric.THROUGHPUT] == 0.1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schema = 2", "schema: must be 1, got 2"),
        ("schema = 1\ntolerances = 3", "tolerances: unknown key"),
        ("schema = 1\ntolerance = 3", "must be a list of tables"),
        ("schema = 1\n[[tolerance]]\nthroughput = 1.5", "must be a finite number > 0 and < 1, got 1.5"),
        ("schema = 1\n[[tolerance]]\nthrouhgput = 0.1", "did you mean throughput?"),
        ("schema = 1\n[[tolerance]]\nmemory = true", "memory: must be a finite number > 0, got True"),
        ("schema = 1\n[[cell]]\nname = 'x'\nwork = 'w'\nunit = 'images'", "throughput: is missing"),
        (
            "schema = 1\n[[cell]]\nname = 'x'\nwork = 'w'\nunit = 'images'\nthroughput = [1.0, nan]",
            "finite numbers > 0",
        ),
        ("schema = 1\n[[cell]]\nwork = 'w'\nunit = 'images'\nthroughput = [1.0]", "name: is missing"),
        ("schema = 1\n[[cell]]\nname = 3\nwork = 'w'\nunit = 'images'\nthroughput = [1.0]", "must be a text, got 3"),
        ("schema = ", "not valid TOML"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_baseline(path)
    assert says in str(raised.value)


def test_a_tolerance_for_no_cell_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    write_baseline(path, [make_accepted()])
    rule = '[[tolerance]]\ncell = "resnet5O*"\nthroughput = 0.2\n'
    path.write_text(path.read_text().replace("# ---- measured", f"{rule}# ---- measured"))
    with pytest.raises(InputError, match="matches no cell: 'resnet5O"):
        read_baseline(path)


def test_a_block_that_a_merge_doubled_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    write_baseline(path, [make_accepted(), make_accepted(last_run="other")])
    with pytest.raises(InputError, match="is there twice for one machine"):
        read_baseline(path)
