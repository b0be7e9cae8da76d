"""The modules of a script's own: where each was imported from, unless that is Python itself or an installed package.

They are code under test that no version number tells apart. Their names and paths are recorded at the end of the
process, and the controller reads the files: nothing of this costs time while the script trains.
"""

from __future__ import annotations

import os
import sys
import sysconfig

_INSTALLED = ("site-packages", "dist-packages")
_MOST = 2000


def local_modules() -> dict[str, str]:
    """Paths by name, the script itself as `__main__`."""
    ours = os.path.dirname(os.path.abspath(__file__))
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    roots = tuple(os.path.join(os.path.realpath(path), "") for path in [ours, os.path.dirname(ours), *paths] if path)
    found: dict[str, str] = {}
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.endswith(".py") or not os.path.isfile(path):
            continue  # torch.ops and torch.classes have the name of a file that is not there
        path = os.path.realpath(path)
        if not path.startswith(roots) and not any(part in _INSTALLED for part in path.split(os.sep)):
            found[name] = path
    return dict(list(found.items())[:_MOST])
