"""Which file of a command line is the code under test, and which interpreter runs it.

A command is read from the left, as the programs in it do: `env A=1 mpirun -np 2 python -u -m pkg.train` is a wrapper, a
launcher, an interpreter and a module. Nothing is run here, and an unknown command has an unknown script.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_SOURCES = (".py", ".sh", ".bash", ".zsh")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PYTHON_VALUES = ("W", "X", "Q")
"""Options of python with a value of their own: -W ignore."""
_OWN_INTERPRETER = frozenset({"torchrun", "accelerate", "deepspeed", "composer", "colossalai", "fleetrun", "ipython",
    "coverage", "kernprof", "viztracer"})  # fmt: skip
"""Launchers written in Python: the script runs in the interpreter of their first line."""
_OTHER_INTERPRETER = frozenset({"uv", "poetry", "pipenv", "conda", "mamba", "micromamba", "pixi", "hatch", "pdm", "rye",
    "docker", "podman", "apptainer", "singularity", "enroot", "ssh", "kubectl"})  # fmt: skip
"""These choose an environment or a machine, so that `python` after them is not the one of this shell."""
_WRAPPERS = frozenset({"env", "nice", "ionice", "numactl", "taskset", "chrt", "timeout", "stdbuf", "time", "nohup",
    "setsid", "sudo", "doas", "nsys", "ncu", "perf", "strace", "gdb", "catchsegv", "xvfb-run", "py-spy", "memray",
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "horovodrun", "trainmark"})  # fmt: skip
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher",
    "accelerate.commands.launch", "accelerate.commands.accelerate_cli", "deepspeed.launcher.runner", "deepspeed",
    "paddle.distributed.launch", "paddle.distributed.fleet.launch", "horovod.runner", "coverage", "cProfile", "pdb",
    "kernprof", "memray", "viztracer")  # fmt: skip
_KEYWORDS = ("do", "then", "else", "if", "while", "exec", "time", "!", "{", "}", "done", "fi")
_CONSOLE_SCRIPT = re.compile(rb"^(?:from|import) ([A-Za-z_][\w.]*)", re.MULTILINE)
_MAX_HEAD_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Script:
    path: Path | None = None
    """The file; None if it is a module that is still to be found, or if there is none."""
    module: str | None = None
    """Of `python -m MODULE`, or behind the command that a package installed."""
    text: str | None = None
    """Code that is in the command itself: python -c TEXT, sh -c TEXT."""
    interpreter: str | None = None
    """The Python that runs it; None if it is unknown or if the program is not Python."""
    variables: Mapping[str, str] | None = None
    """Set in the command line itself, before the interpreter."""


def program_name(word: str) -> str | None:
    """The name of an interpreter, launcher or wrapper without folder and version; None for any other word."""
    name = PurePath(word).name
    if _PYTHON.fullmatch(name):
        return name.rstrip("0123456789.")
    return name if name in _WRAPPERS | _OWN_INTERPRETER | _OTHER_INTERPRETER or name in _SHELLS else None


def find_script(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> Script:
    return _Reader(cwd, environment).read(list(argv))


class _Reader:
    def __init__(self, cwd: Path, environment: Mapping[str, str]) -> None:
        self._cwd, self._environment = cwd, dict(environment)
        self._set: dict[str, str] = {}
        self._launcher_python: str | None = None
        """The interpreter of a launcher that was passed."""
        self._takes_modules = self._is_elsewhere = False

    def read(self, words: Sequence[str]) -> Script:
        found = self._scan(words)
        return replace(found, variables=self._set, interpreter=None if self._is_elsewhere else found.interpreter)

    def _scan(self, words: Sequence[str], *, is_wrapped: bool = False) -> Script:
        for place, word in enumerate(words):
            rest, name = words[place + 1 :], PurePath(word).name
            if word.startswith("-"):  # an option of a wrapper
                if word in ("-m", "--module") and rest and self._takes_modules:
                    return Script(module=rest[0], interpreter=self._launcher_python)
            elif match := _ASSIGNMENT.fullmatch(word):
                self._environment[match[1]] = self._set[match[1]] = match[2]
            elif _PYTHON.fullmatch(name):
                return self._read_python(self._which(word), rest)
            elif name in _SHELLS:
                return self._read_shell(rest)
            elif name in _WRAPPERS | _OWN_INTERPRETER | _OTHER_INTERPRETER:
                is_wrapped = True
                self._is_elsewhere |= name in _OTHER_INTERPRETER
                if name in _OWN_INTERPRETER:
                    self._takes_modules = True
                    self._launcher_python = self._shebang(Path(self._which(word) or word))
            elif not is_wrapped:
                return self._read_program(word)
            elif word.endswith(_SOURCES) and (path := self._file(word)) is not None:
                return self._of_file(path)
        return self._first_program(words) if is_wrapped else Script()

    def _read_python(self, interpreter: str | None, words: Sequence[str]) -> Script:
        skip = False
        for place, word in enumerate(words):
            rest = words[place + 1 :]
            if skip or word == "--":
                skip = False
            elif not word.startswith("-") or word == "-":
                path = self._file(word) or self._file(f"{word}/__main__.py")
                return Script(path=path, interpreter=interpreter)
            elif word.startswith("--"):
                skip = word == "--check-hash-based-pycs"
            else:  # single letters, of which the last may have a value: -u, -um pkg.train, -Wignore
                letter = next((letter for letter in word[1:] if letter in ("c", "m", *_PYTHON_VALUES)), "")
                value = word[1:].partition(letter)[2] if letter else ""
                if letter in ("c", "m"):
                    text, others = (value, rest) if value else ("".join(rest[:1]), rest[1:])
                    is_code = letter == "c"
                    own = Script(text=text, interpreter=interpreter)
                    return own if is_code else self._read_module(text, others, interpreter)
                skip = bool(letter) and not value
        return Script(interpreter=interpreter)

    def _read_module(self, module: str, words: Sequence[str], interpreter: str | None) -> Script:
        if module not in _LAUNCHER_MODULES:
            return Script(module=module or None, interpreter=interpreter)
        self._launcher_python, self._takes_modules = interpreter, True
        return self._scan(words, is_wrapped=True)

    def _read_shell(self, words: Sequence[str]) -> Script:
        for place, word in enumerate(words):
            if word.startswith("-") and word.endswith("c") and words[place + 1 :]:
                return self._read_line(words[place + 1])
            if not word.startswith(("-", "+")):
                path = self._file(word)
                return Script() if path is None else self._of_file(path)
        return Script()

    def _read_line(self, text: str) -> Script:
        """The first command of a shell's line that has a script: `cd x && python train.py | tee log`."""
        own = Script(text=text)
        try:
            lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            return own
        command: list[str] = []
        for word in [*words, ";"]:
            if word.strip(";&|()") and word not in _KEYWORDS:
                command.append(word)
                continue
            if command[:1] == ["cd"] and len(command) == 2:
                self._cwd = self._cwd / command[1]
            elif command:
                found = self._scan(command)
                if found.module is not None or (found.path is not None and found.path.suffix in _SOURCES):
                    return found
            command = []
        return own

    def _first_program(self, words: Sequence[str]) -> Script:
        """A wrapper around a program that is neither Python nor a shell script: the first file that can be run."""
        for word in words:
            name = PurePath(word).name
            path = None if word.startswith("-") or name in _WRAPPERS | _OWN_INTERPRETER else self._which(word)
            if path is not None and not self._is_elsewhere:
                return self._of_file(Path(path))
        return Script(interpreter=self._launcher_python)

    def _read_program(self, word: str) -> Script:
        path = self._which(word)
        return Script() if path is None else self._of_file(Path(path))

    def _of_file(self, path: Path) -> Script:
        interpreter = self._launcher_python or self._shebang(path)
        if path.suffix == ".py":
            return Script(path=path, interpreter=interpreter)
        if path.suffix in _SOURCES:  # it will most likely start the Python of this shell
            return Script(path=path, interpreter=interpreter or self._which("python3") or self._which("python"))
        module = self._module_behind(path) if interpreter is not None else None
        return Script(path=path, module=module, interpreter=interpreter)

    def _module_behind(self, path: Path) -> str | None:
        """Of a command that a package installed: a few lines that import a function and call it."""
        found = _CONSOLE_SCRIPT.findall(self._head(path))
        own = [name.decode() for name in found if name not in (b"re", b"sys", b"__future__")]
        return own[0] if len(own) == 1 else None

    def _shebang(self, path: Path) -> str | None:
        """The Python of a first line like `#!/opt/venv/bin/python` or `#!/usr/bin/env python3`."""
        line = self._head(path).partition(b"\n")[0]
        if not line.startswith(b"#!"):
            return None
        words = [word for word in os.fsdecode(line[2:]).split() if not word.startswith("-")]
        words = words[1:] if words and PurePath(words[0]).name == "env" else words
        return self._which(words[0]) if words and _PYTHON.fullmatch(PurePath(words[0]).name) else None

    def _head(self, path: Path) -> bytes:
        try:
            if not path.is_file():
                return b""
            with path.open("rb") as file:
                return file.read(_MAX_HEAD_BYTES)
        except OSError:
            return b""

    def _which(self, word: str) -> str | None:
        if "/" in word:
            path = self._file(word)
            return str(path) if path is not None and os.access(path, os.X_OK) else None
        return shutil.which(word, path=self._environment.get("PATH"))

    def _file(self, word: str) -> Path | None:
        try:
            path = self._cwd / word
            return path if path.is_file() else None
        except (OSError, ValueError):
            return None
