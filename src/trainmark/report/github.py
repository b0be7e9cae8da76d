"""The result of `check` where GitHub Actions shows it: annotations of the check run, and the summary of the step.

GitHub shows at most ten annotations of a kind per step, and a summary of at most 1 MiB.
"""

from __future__ import annotations

from trainmark.analyse.gate_result import GateResult, Status
from trainmark.report.gate import HEADINGS, STATUSES, answer, notes_of, rows_of, say
from trainmark.report.markup import escape_markdown, markdown_table
from trainmark.units import plain

_MOST_ANNOTATIONS = 10
_MOST_CELLS = 500
_LEVELS = {
    Status.FAILED: "error",
    Status.REGRESSION: "error",
    Status.NOT_COMPARABLE: "error",
    Status.NOT_MEASURED: "error",
    Status.INCONCLUSIVE: "warning",
    Status.NEW: "notice",
}


def list_annotations(result: GateResult, baseline: str) -> list[str]:
    """Workflow commands, one a line; `baseline` is the file that GitHub shows them at."""
    found: dict[str, list[str]] = {}
    for cell in result.cells:
        for finding in notes_of(cell):
            level = _LEVELS.get(finding.status)
            if level is not None:
                title = f"trainmark: {STATUSES[finding.status]}"
                found.setdefault(level, []).append(_command(level, baseline, title, f"{cell.name}: {say(finding)}"))
    if not result.with_status(result.status):  # nothing was judged, so no cell says it
        found.setdefault("error", []).append(_command("error", baseline, "trainmark", answer(result)))
    return [line for lines in found.values() for line in lines[:_MOST_ANNOTATIONS]]


def _command(level: str, file: str, title: str, message: str) -> str:
    return f"::{level} file={_property(file)},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_summary(result: GateResult) -> str:
    """Markdown, to be appended to the file that GITHUB_STEP_SUMMARY names."""
    cells = result.cells[:_MOST_CELLS]
    parts = [f"### trainmark check: {escape_markdown(STATUSES[result.status])}", escape_markdown(answer(result))]
    rows = [[escape_markdown(text) for text in row] for cell in cells for row in rows_of(cell)]
    if rows:
        parts.append(markdown_table(HEADINGS, rows))
    notes = [f"{cell.name}: {note}" for cell in cells for note in (*map(say, notes_of(cell)), *cell.notes)]
    if notes:
        parts.append("\n".join(f"- {escape_markdown(note)}" for note in notes))
    if len(cells) < len(result.cells):
        parts.append(f"{len(result.cells) - len(cells)} more cells are not shown.")
    return "\n\n".join(parts) + "\n"
