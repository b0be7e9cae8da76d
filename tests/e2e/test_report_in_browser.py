"""The HTML report in a real browser, without a network: no request, no error, readable, and usable by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from making import make_cell, make_run
from reporting import html_of
from trainmark.analyse.references import load_references
from trainmark.analyse.table import build_lines
from trainmark.store.folder import read_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api")
    pytest.importorskip("axe_playwright_python.sync_playwright")
    with sync_api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=120_000)
        except sync_api.Error as error:
            pytest.skip(f"chromium does not start: {error}")
        yield found
        found.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    noise = np.random.default_rng(5)
    for devices in (1, 2, 4):
        steps = [3.0, *(0.1 * (1 + 0.02 * noise.standard_normal(200))).tolist()]
        make_run(root, f"run-{devices}", cell=make_cell(devices_per_node=devices), seconds=steps)
    make_run(root, "bad", cell=make_cell(precision="bf16"), outcome="oom", reason="no memory")
    rows = [row for folder in sorted(root.iterdir()) if (row := read_run(folder)) is not None]
    path = root / "report.html"
    path.write_text(html_of(build_lines(rows), root=root, references=load_references()), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desktop in light", "phone in dark"]
)
def test_no_request_no_error_and_no_fault_of_access(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True, bypass_csp=False
    )
    page = context.new_page()
    requests: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(page_file.as_uri(), timeout=120_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing hangs over the edge"
    box = page.locator("[data-zoom]").first
    before = box.locator("svg.plot").get_attribute("viewBox")
    box.focus()
    page.keyboard.press("+")
    assert box.locator("svg.plot").get_attribute("viewBox") != before, "the script runs under the policy"
    page.keyboard.press("Escape")
    assert box.locator("svg.plot").get_attribute("viewBox") == before
    assert requests == [page_file.as_uri()]
    assert problems == []
    context.close()
    # Axe is injected, which the policy of the page forbids: in a context of its own.
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(page_file.as_uri(), timeout=120_000)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
    assert [f"{one['id']}: {one['nodes'][0]['html']}" for one in found.response["violations"]] == []
    context.close()


def test_without_script_the_charts_and_tables_are_there(browser: Any, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri(), timeout=120_000)
    assert page.locator("svg.chart").count() >= 4
    assert page.locator("svg.chart").first.bounding_box()["width"] > 200
    assert page.locator("table").count() >= 4
    context.close()
