"""The start-up hook in processes of its own: it sees every Python process that it can, and breaks none.

A stub of a framework stands for torch: what is tested here is how the hook gets into processes, not what it sees there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from making import STUB_TORCH
from trainmark import observe


class Place:
    """A folder with a stub of torch, and what a run of ours would set in the environment."""

    def __init__(self, folder: Path) -> None:
        self.run, self.library = folder / "run", folder / "library"
        (self.library / "torch").mkdir(parents=True)
        self.run.mkdir()
        (self.library / "torch" / "__init__.py").write_text(STUB_TORCH)
        self.script = folder / "script.py"

    def python(
        self, code: str, *flags: str, python: str = sys.executable, expect: int = 0, argv: Sequence[str] = ()
    ) -> str:
        self.script.write_text(textwrap.dedent(code))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {observe.VARIABLE: str(self.run), "PYTHONPATH": observe.with_hook(str(self.library))}
        words = list(argv) or [python, *flags, str(self.script)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == expect, done.stderr
        assert "sitecustomize" not in done.stderr
        return done.stdout

    def num_steps(self) -> list[int]:
        """Of each process that trained, in the order of the ranks."""
        files = sorted(self.run.glob("rank*.observed.jsonl"))
        lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in files]
        return [sum(record["kind"] == "step" for record in records) for records in lines]

    def notes(self, kind: str) -> list[str]:
        path = self.run / "observer.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [record["what"] for record in map(json.loads, lines) if record["kind"] == kind]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_process_that_trains_is_seen_and_its_path_and_modules_are_its_own(place: Place) -> None:
    out = place.python("""
        import sys, torch
        torch.train(5)
        print(any("observe" in path for path in sys.path), "sitecustomize" in sys.modules)
        print(type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__)
    """)
    assert out.split() == ["False", "True", "SourceFileLoader", "SourceFileLoader"]
    assert place.num_steps() == [4], "the first step starts the clock"
    assert place.notes("framework") == ["torch 2.9"]


def test_a_part_of_the_framework_that_is_missing_is_a_note(place: Place) -> None:
    place.python("import torch; torch.train(3)")
    assert any("data_loaders" in note for note in place.notes("failed"))
    assert place.num_steps() == [2]


def test_without_a_framework_there_is_only_a_sign_of_life(place: Place) -> None:
    place.python("print('hello')")
    assert [path.name for path in place.run.iterdir()] == ["observer.jsonl"]
    assert (len(place.notes("process")), place.notes("framework")) == (1, [])


def test_an_own_sitecustomize_and_usercustomize_run_too(place: Place) -> None:
    (place.library / "sitecustomize.py").write_text("import builtins; builtins.found = __file__; value = 3")
    out = place.python("import torch, sitecustomize; torch.train(3); print(found, sitecustomize.value)")
    assert out.split() == [str(place.library / "sitecustomize.py"), "3"]
    assert place.num_steps() == [2]


def test_a_broken_sitecustomize_of_the_user_is_reported_as_python_reports_it(place: Place) -> None:
    (place.library / "sitecustomize.py").write_text("raise RuntimeError('not today')")
    environment = {**os.environ, observe.VARIABLE: str(place.run)}
    plain = {**environment, "PYTHONPATH": str(place.library)}
    hooked = {**environment, "PYTHONPATH": observe.with_hook(str(place.library))}
    argv = [sys.executable, "-c", "import torch; torch.train(3); print('fine')"]
    one, other = (subprocess.run(argv, env=env, capture_output=True, text=True, check=True) for env in (plain, hooked))
    assert (one.stdout, one.stderr) == (other.stdout, other.stderr)
    assert place.num_steps() == [2]


FORKS = """
    import os, torch
    torch.train(3)
    if os.fork() == 0:
        torch.train(5)
        os._exit(0)
    os.wait()
    torch.train(3)
"""
SPAWNS = """
    import multiprocessing, torch
    def work(): torch.train(5)
    if __name__ == "__main__":
        child = multiprocessing.get_context("spawn").Process(target=work)
        child.start(); child.join()
        assert child.exitcode == 0
"""
EXECS = """
    import os, sys, torch
    torch.train(3)
    os.execv(sys.executable, [sys.executable, "-c", "import torch; torch.train(5)"])
"""
DAEMONIZES = """
    import os, time, torch
    begin, end = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        torch.train(5)
        time.sleep(0.05); torch.train(1)
        os.write(end, b"x"); os._exit(0)
    os.read(begin, 1)
"""
SUBPROCESSES = """
    import subprocess, sys
    for _ in range(2):
        subprocess.run([sys.executable, "-c", "import torch; torch.train(4)"], check=True)
"""


@pytest.mark.parametrize(
    ("code", "steps"),
    [(FORKS, None), (SPAWNS, 4), (EXECS, None), (DAEMONIZES, None), (SUBPROCESSES, 6)],
    ids=["fork", "spawn", "exec", "daemon", "subprocess"],
)
def test_children_are_seen_however_they_start(place: Place, code: str, steps: int | None) -> None:
    """A process that ends by os._exit or exec may lose the steps of its last millisecond."""
    place.python(code)
    found = place.num_steps()
    assert found
    if steps is not None:
        assert sum(found) == steps


def test_a_kill_leaves_whole_lines(place: Place) -> None:
    code = """
        import os, signal, time, torch
        optimizer = torch.Optimizer()
        for number in range(4):
            optimizer.step(); time.sleep(0.11)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    place.python(code, expect=-9)
    assert place.num_steps() == [3]


def test_a_script_that_closes_all_descriptors_keeps_its_own_files(place: Place) -> None:
    """As daemons do; the next file that it opens gets the number of ours."""
    code = """
        import os, sys, time, torch
        torch.train(3); time.sleep(0.11); torch.train(1)
        os.closerange(3, 64)
        files = [open(f"{sys.argv[0]}.{number}", "w+") for number in range(3)]
        time.sleep(0.11); torch.train(4)
        for file in files: file.flush(); file.seek(0); assert file.read() == "", "written by others"
    """
    place.python(code)
    assert sum(place.num_steps()) >= 6


def test_a_pool_and_a_thread_that_forks(place: Place) -> None:
    code = """
        import multiprocessing, threading, torch
        def work(number): torch.train(4); return number
        def run():
            with multiprocessing.get_context("fork").Pool(3) as pool: found.extend(pool.map(work, range(3), 1))
        found = []
        thread = threading.Thread(target=run); thread.start()
        torch.train(4); thread.join()
        assert sorted(found) == [0, 1, 2]
    """
    place.python(code)
    assert place.num_steps()


def test_a_child_with_a_path_of_its_own_is_left_alone(place: Place) -> None:
    code = """
        import os, subprocess, sys
        child = "import sys; assert not any('observe' in path for path in sys.path); print('fine')"
        environment = {**os.environ, "PYTHONPATH": "nowhere"}
        sys.exit(subprocess.run([sys.executable, "-c", child], env=environment).returncode)
    """
    assert place.python(code) == "fine\n"
    assert len(place.notes("process")) == 1


EMBEDS = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
int main(void) {
    Py_Initialize();
    int code = PyRun_SimpleString("import torch; torch.train(3)");
    return Py_FinalizeEx() < 0 ? 120 : code;
}
"""


def test_a_program_that_embeds_python_is_seen(place: Place, tmp_path: Path) -> None:
    source, program = tmp_path / "embed.c", tmp_path / "embed"
    source.write_text(EMBEDS)
    asked = [["python3-config", what, "--embed"] for what in ("--includes", "--ldflags")]
    if not shutil.which("cc") or not shutil.which("python3-config"):
        pytest.skip("no C compiler, or no headers of Python")
    includes, libraries = (subprocess.run(words, capture_output=True, text=True, check=False).stdout for words in asked)
    argv = ["cc", str(source), "-o", str(program), *includes.split(), *libraries.split()]
    if subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("a program that embeds Python cannot be built here")
    place.python("", argv=[str(program)])
    assert place.num_steps() == [2]


EVENTS = """
import os, sys
sys.path.insert(0, sys.argv[1])
import recorder, step_counter
class Event:
    "As those of CUDA: to destroy one in a forked child aborts it."
    owner = os.getpid()
    def __del__(self):
        if os.getpid() != self.owner: os.abort()
counter = step_counter.StepCounter(recorder.Recorder(sys.argv[2]))
class Clock:
    def mark(self): return Event()
    def seconds(self, begin, end): return None
counter.add_clock(Clock())
for _ in range(4): counter.optimizer_step(1, "test")
if os.fork() == 0:
    counter._clocks.clear()
    for _ in range(4): counter.optimizer_step(1, "test")
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.wait()[1])
counter._pending.clear()
sys.exit(code)
"""


def test_a_forked_child_does_not_destroy_the_events_of_its_parent(place: Place) -> None:
    """Workers of a data loader, which are forked after the first steps of a training on CUDA."""
    place.python("", argv=[sys.executable, "-c", EVENTS, str(observe.HOOK_FOLDER.parent), str(place.run)])


@pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
def test_flags_that_hide_the_hook_break_nothing(place: Place, flag: str) -> None:
    out = place.python("print('fine')", flag)
    assert out == "fine\n"
    assert list(place.run.iterdir()) == [], "the controller says why"


def test_a_program_in_a_zip_file_is_seen(place: Place) -> None:
    zipped = place.run.parent / "app.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("__main__.py", "import torch; torch.train(3)")
    place.python("", argv=[sys.executable, str(zipped)])
    assert place.num_steps() == [2]


def other_pythons() -> list[str]:
    """Interpreters of this machine that are not ours: that of the system, and the oldest and newest of pyenv."""
    found = sorted(Path.home().glob(".pyenv/versions/[23]*/bin/python"), key=lambda path: by_version(path.parts[-3]))
    chosen = [*found[:1], *(path for path in found if path.parts[-3].startswith("3.8.")), *found[-1:]]
    return [str(path) for path in (Path("/usr/bin/python3"), *dict.fromkeys(chosen)) if path.exists()]


def by_version(name: str) -> list[int]:
    return [int(part) for part in name.split(".") if part.isdigit()]


@pytest.mark.parametrize("python", other_pythons() or [None])
def test_another_interpreter_without_trainmark(place: Place, python: str | None) -> None:
    if python is None:
        pytest.skip("there is no other Python on this machine")
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip(f"{python} does not start")
    version = tuple(int(part) for part in asked.stdout.split("."))
    place.python("import torch; torch.train(3)" if version >= (3, 8) else "print(1)", python=python)
    assert len(place.notes("process")) == 1
    assert place.num_steps() == ([2] if version >= (3, 8) else [])


def test_a_run_folder_that_cannot_be_written_breaks_nothing(place: Place) -> None:
    shutil.rmtree(place.run)
    place.run.write_text("a file")
    assert place.python("import torch; torch.train(30); print('fine')") == "fine\n"


def test_an_exit_code_and_an_exception_stay(place: Place) -> None:
    place.python("import torch, sys; torch.train(3); sys.exit(7)", expect=7)
    place.python("import torch; torch.train(3); raise KeyError('x')", expect=1)


def test_ranks_are_those_of_the_launcher() -> None:
    import importlib.util

    from trainmark import mark, rank_environment

    path = observe.HOOK_FOLDER.parent / "recorder.py"
    spec = importlib.util.spec_from_file_location("recorder", path)
    assert spec is not None
    assert spec.loader is not None
    recorder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    assert ("RANK", *rank_environment.SOURCES["RANK"]) == recorder._RANKS == mark._RANKS
