"""What the verbs print with `--json` is what docs/reference/schemas says."""

from __future__ import annotations

import argparse
import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from making import make_cell, make_run
from many_runs import make_store
from schema_checking import check_document
from trainmark.cli.main import build_parser, main
from trainmark.cli.schemas import make_schemas
from trainmark.report.json_schema import schema_of

SCHEMAS = make_schemas()
LOG = (
    "2021-05-11 17:44:29 [INFO]\t[TRAIN] epoch: 1, iter: {n}/160000, loss: 0.9, lr: 0.01, batch_cost: 0.4{n}, "
    "reader_cost: 0.00136, ips: 18.{n} samples/sec | ETA 07:41:26\n"
)

PRINTING = [
    ("show", "show --store STORE"),
    ("report", "report --store STORE"),
    ("check-replay", "check --store STORE --replay"),
    ("list", "list"),
    ("doctor", "doctor --store STORE"),
    ("plan", "plan quick --store STORE"),
    ("run-dry", "run resnet50 --size small --device cpu --launcher dry --store TMP/dry"),
    ("import", "import TMP/log --store TMP/imported"),
    ("data-make", "data make cityscapes TMP/made --images 10 --workers 1"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own runs, trainings, commands, logs and failures; and a study of scaling with its communication."""
    root = tmp_path_factory.mktemp("schemas") / "runs"
    make_store(root, 30)
    pairs = {"kind": "communication", "pairs": [[0.2, 0.1]] * 8, "gradient_bytes": 1000, "num_ranks": 2,
             "all_reduce_s": [0.01] * 3}  # fmt: skip
    for devices in (1, 2):
        cell = make_cell(devices_per_node=devices, size="full")
        make_run(root, f"study-{devices}", cell=cell, seconds=[0.1 * devices] * 40, extra=[pairs])
    return root


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    code = main([str(word) for word in words])
    out = capsys.readouterr()
    assert code in (0, 3, 4), out.err
    return json.loads(out.out)


@pytest.mark.parametrize(("name", "words"), PRINTING)
def test_a_document_is_as_its_schema_says(
    name: str, words: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "train.log").write_text("".join(LOG.format(n=n) for n in range(20)))
    argv = words.replace("STORE", str(store)).replace("TMP", str(tmp_path)).split()
    check_document(name, printed(capsys, *argv, "--json"))


def test_the_results_have_no_field_that_the_schema_does_not_know(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = copy.deepcopy(SCHEMAS["show"])
    for definition in closed["$defs"].values():
        definition["additionalProperties"] = False
    jsonschema.Draft202012Validator(closed).validate(printed(capsys, "show", "--store", store, "--json"))


def test_a_wrong_document_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMAS["show"])
    document = printed(capsys, "show", "--store", store, "--json")
    for place, value in (("throughput", {"value": "fast"}), ("outcome", 3), ("warnings", None)):
        wrong = copy.deepcopy(document)
        wrong["results"][0][place] = value
        assert not validator.is_valid(wrong)
    del document["results"][0]["identity"]
    assert not validator.is_valid(document)


def test_every_command_that_prints_json_has_a_schema() -> None:
    verbs = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    printing = {
        name
        for action in verbs
        for name, parser in action.choices.items()
        if any("--json" in option.option_strings for option in parser._actions)
    }
    assert printing - {name.split("-")[0] for name in SCHEMAS} == set()


def test_every_schema_is_checked_against_what_a_verb_really_prints() -> None:
    texts = (path.read_text() for path in Path(__file__).parents[2].rglob("test_*.py"))
    calls = " ".join(call for text in texts for call in re.findall(r"check_document\(([^)]*)\)", text))
    assert {name for name, _ in PRINTING} | set(re.findall(r'"([a-z-]+)"', calls)) >= set(SCHEMAS)


def test_schemas_are_valid_and_refuse_unknown_types() -> None:
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(TypeError, match="no JSON Schema for"):
        schema_of(complex, title="x")
