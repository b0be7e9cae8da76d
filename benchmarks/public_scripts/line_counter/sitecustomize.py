"""Notes when chosen source lines of a script run: the independent count that the observer is compared with.

It shares nothing with the observer and knows no framework. `sys.monitoring` (Python 3.12 or later) calls back at the
start of each line; lines that were not asked for are switched off at their first run, so a script is not slowed down.
`LINE_COUNTER` is a JSON object: `folder` for the output, and `lines`, a list of [name, end of the file's path, regular
expression for the source line]. Each process writes `<rank or p><process id>.lines`: the name of the line and the
monotonic time, one line of text per run of the line, not buffered, so that a kill loses nothing.
"""

import json
import linecache
import os
import re
import sys
import time

_TOOL = 4


def _start(folder, lines):
    wanted = [(name, end, re.compile(pattern)) for name, end, pattern in lines]
    names = {}
    output = {}
    events = sys.monitoring.events

    def enter(code, _offset):
        mine = [(name, pattern) for name, end, pattern in wanted if code.co_filename.endswith(end)]
        if mine:
            for number in {line for _, _, line in code.co_lines() if line is not None}:
                text = linecache.getline(code.co_filename, number)
                for name, pattern in mine:
                    if pattern.search(text):
                        names[code, number] = name
            if any(known == code for known, _ in names):
                sys.monitoring.set_local_events(_TOOL, code, events.LINE)
        return sys.monitoring.DISABLE

    def run_line(code, number):
        name = names.get((code, number))
        if name is None:
            return sys.monitoring.DISABLE
        now, process = time.perf_counter(), os.getpid()
        if process not in output:
            rank = next((os.environ[key] for key in ("RANK", "OMPI_COMM_WORLD_RANK") if key in os.environ), "p")
            path = f"{folder}/{rank}-{process}.lines"
            output[process] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(output[process], f"{name} {now:.7f}\n".encode())
        return None

    sys.monitoring.use_tool_id(_TOOL, "line counter")
    sys.monitoring.register_callback(_TOOL, events.PY_START, enter)
    sys.monitoring.register_callback(_TOOL, events.LINE, run_line)
    sys.monitoring.set_events(_TOOL, events.PY_START)


if "LINE_COUNTER" in os.environ and hasattr(sys, "monitoring"):  # an older Python is not the script's
    _start(**json.loads(os.environ["LINE_COUNTER"]))
if os.environ.get("USE_GLOO"):
    import use_gloo  # noqa: F401 - it does its work when it is loaded
