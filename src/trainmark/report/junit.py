"""The result of `check` as JUnit XML, which CI servers show as a list of tests: one test per cell and metric.

A regression is a failure; a run that failed, and whatever could not be judged, is an error, so that it is not green.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from trainmark.analyse.gate_result import CellResult, Finding, GateResult, Status
from trainmark.report.gate import METRICS, answer, say
from trainmark.units import plain

_SUITE = "trainmark check"
_ELEMENTS = {
    Status.REGRESSION: "failure",
    Status.FAILED: "error",
    Status.NOT_COMPARABLE: "error",
    Status.NOT_MEASURED: "error",
    Status.INCONCLUSIVE: "error",
    Status.NEW: "skipped",
    Status.SKIPPED: "skipped",
}
_NOT_XML = re.compile("[\ufffe\uffff]")
"""Not allowed in XML, as are the control characters that `plain` replaces."""


def render_junit(result: GateResult) -> str:
    pairs = [(cell, finding) for cell in result.cells for finding in cell.findings]
    if result.status is Status.NOT_MEASURED and not any(_ELEMENTS.get(found.status) == "error" for _, found in pairs):
        return _render([], extra=answer(result))
    return _render(pairs)


def _render(pairs: list[tuple[CellResult, Finding]], extra: str | None = None) -> str:
    kinds = [_ELEMENTS.get(finding.status) for _, finding in pairs] + (["error"] if extra is not None else [])
    seconds = sum(_seconds(cell, finding) for cell, finding in pairs)
    counts = {
        "name": _SUITE,
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{seconds:.3f}",
    }
    root = ET.Element("testsuites", {key: text for key, text in counts.items() if key != "skipped"})
    suite = ET.SubElement(root, "testsuite", counts)
    for cell, finding in pairs:
        _add_case(suite, cell, finding)
    if extra is not None:
        case = ET.SubElement(suite, "testcase", classname=_SUITE, name="anything measured", time="0.000")
        ET.SubElement(case, "error", type=str(Status.NOT_MEASURED), message=_text(extra))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, cell: CellResult, finding: Finding) -> None:
    metric = METRICS[finding.metric] if finding.metric is not None else "measured"
    name = _text(f"{cell.name}: {metric}")
    case = ET.SubElement(suite, "testcase", classname=_SUITE, name=name, time=f"{_seconds(cell, finding):.3f}")
    kind = _ELEMENTS.get(finding.status)
    if kind == "skipped":
        ET.SubElement(case, kind, message=_text(say(finding)))
    elif kind is not None:
        found = ET.SubElement(case, kind, type=str(finding.status), message=_text(say(finding)))
        found.text = _text("runs: " + ", ".join(cell.run_ids)) if cell.run_ids else None
    if kind is None:
        ET.SubElement(case, "system-out").text = _text(say(finding))


def _seconds(cell: CellResult, finding: Finding) -> float:
    """The runs of a cell took their time once, not once per metric."""
    return cell.wall_s if finding is cell.findings[0] else 0.0


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", plain(text))
