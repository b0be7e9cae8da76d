"""Several controllers at one store."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from trainmark.cli.output import open_store
from trainmark.store.columns import to_records

_SCRIPT = """
import sys
from trainmark import mark
for number in range(int(sys.argv[1])):
    mark.step(samples=8)
"""
_WRITERS, _REPEATS = 4, 3


def test_four_controllers_at_once_lose_nothing(tmp_path: Path) -> None:
    """They begin together, so that they also create the index together; `show` looks on while they write."""
    store, script = tmp_path / "runs", tmp_path / "train.py"
    script.write_text(_SCRIPT)
    trainmark = [sys.executable, "-m", "trainmark.cli.main"]
    writers = [
        subprocess.Popen(
            [*trainmark, "run", "--json", "--repeat", str(_REPEATS), "--store", store, "--", sys.executable, script, n],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in ("20", "30", "40", "50")
    ]
    time.sleep(2)
    subprocess.run([*trainmark, "show", "--store", store], capture_output=True, check=False, timeout=60)
    said = [writer.communicate(timeout=120) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * _WRITERS, said
    told = [result for out, _ in said for result in json.loads(out)["results"]]
    assert len(told) == len({result["id"] for result in told}) == _WRITERS * _REPEATS

    indexed = [to_records(row) for row in open_store(store).rows()]
    assert {record["runs"]["id"] for record in indexed} == {result["id"] for result in told}
    assert {record["runs"]["outcome"] for record in indexed} == {"ok"}
    counts = {one["runs"]["id"]: one["runs"]["num_records"] for one in indexed}
    assert counts == {one["id"]: one["records"] for one in told}
    assert all(record["runs"]["analysis_version"] for record in indexed)

    open_store(store).reindex()
    assert [to_records(row) for row in open_store(store).rows()] == indexed
