"""Paddle's launcher, which here writes only what the processes print.

`python -m trainmark.worker.paddle.private paddle.distributed.launch ARGUMENTS` runs it. By itself it writes the whole
environment into its log folder, several times and readable for everybody, and prints its command line: passwords and
tokens too.

Its functions that write the environment are replaced. Also, in case another version of Paddle has more of them, it does
not get to know the secrets: they are taken out of its environment and its command line, and each process gets them back
when it starts.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import MutableMapping
from typing import Any

from paddle.distributed.launch.context.device import Device, DeviceType
from paddle.distributed.launch.controllers.controller import Controller
from paddle.distributed.launch.job import container
from paddle.distributed.launch.utils.process_context import ProcessContext

from trainmark.redaction import Redactor

_withheld: dict[str, str] = {}
"""Variables for the processes."""
_command: list[str] = []
"""The command line with its secrets; that of the processes is at its end."""


class _Process(ProcessContext):
    """One process of a run, in a session of its own."""

    def _start(self) -> None:
        """Paddle's would write the environment to a file first."""
        self._proc = subprocess.Popen(
            _command[-len(self._cmd) :],
            env={**self._env, **_withheld},
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=self._group,
        )


def main(arguments: list[str]) -> None:
    """`arguments` are the module of the launcher and its own."""
    _withheld.update(withhold_secrets(os.environ))
    _command[:] = arguments
    container.ProcessContext = _Process
    Controller.save_pod_env = Controller.save_pod_log = _write_nothing
    if os.environ.get("PADDLE_DISTRI_BACKEND") == "gloo":
        # With a build for GPUs it would give each process a GPU, and fail if there are fewer than processes.
        Device.parse_device = classmethod(lambda device: device(DeviceType.CPU))
    sys.argv = list(Redactor().words(arguments))
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def withhold_secrets(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Take out of `environment` what must not be written."""
    shown = Redactor().variables(environment)
    secrets = {name: value for name, value in environment.items() if shown[name] != value}
    for name in secrets:
        del environment[name]
    return secrets


def _write_nothing(*_: Any) -> None:
    pass


if __name__ == "__main__":
    main(sys.argv[1:])
