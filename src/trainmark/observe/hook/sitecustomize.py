"""Runs at the start of every Python process of an observed command, then runs the sitecustomize that it hides.

The syntax is that of any Python, old ones included: a syntax error here would be printed by the script of somebody
else. Only modules that every start has loaded already are used; the rest is loaded when a framework is imported.
"""

import os
import sys

_FRAMEWORKS = ("torch", "paddle", "tensorflow", "keras", "jax")


class _Waiting(object):
    """An import hook: runs `framework_hooks.install` after a framework has been imported."""

    def __init__(self, folder, here):
        self._folder = folder
        self._here = here
        self._busy = False

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002
        if name not in _FRAMEWORKS or self._busy:
            return None
        try:
            self._busy = True
            from importlib.util import find_spec

            spec = find_spec(name)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = _Watching(spec.loader, self)
            return spec
        except Exception:
            return None
        finally:
            self._busy = False

    def imported(self, module):
        try:
            from importlib.util import module_from_spec, spec_from_file_location

            full_name = "_trainmark_observe_framework_hooks"
            hooks = sys.modules.get(full_name)
            if hooks is None:
                spec = spec_from_file_location(full_name, os.path.join(self._here, "framework_hooks.py"))
                hooks = module_from_spec(spec)
                spec.loader.exec_module(hooks)
                sys.modules[full_name] = hooks
            hooks.install(module, self._folder)
        except Exception as error:
            _note(self._folder, "failed", "%s: %s" % (type(error).__name__, error))


class _Watching(object):
    """The loader of a framework, for the time of its import only: afterwards the module has its own again."""

    def __init__(self, loader, waiting):
        self._loader = loader
        self._waiting = waiting

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._waiting.imported(module)


def _note(folder, kind, what):
    """One line for the controller, by which it knows that the process was seen."""
    try:
        path = os.path.join(folder, "observer.jsonl")
        if os.path.exists(path) and os.path.getsize(path) > 65536:
            return
        text = "".join(letter for letter in what[:300] if letter.isalnum() or letter in " .,:;/_-+=()'[]<>")
        line = '{"kind":"%s","pid":%d,"what":"%s"}\n' % (kind, os.getpid(), text)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line.encode("ascii", "replace"))
        finally:
            os.close(file)
    except Exception:
        pass


def _start():
    folder = os.environ.get("TRAINMARK_OBSERVE")
    if not folder:
        return
    version = sys.version_info
    _note(folder, "process", "Python %d.%d.%d" % version[:3])
    if version >= (3, 8):
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.meta_path.insert(0, _Waiting(folder, here))


def _run_hidden():
    """The sitecustomize that Python would have run without us; its errors are its own, and Python reports them."""
    hook = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != hook]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        # The import of this file ends with a look into sys.modules.
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


try:
    _start()
except Exception:
    pass
_run_hidden()
