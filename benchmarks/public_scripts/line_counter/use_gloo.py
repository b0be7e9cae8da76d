"""Gives gloo to a script that asks for NCCL, which refuses two processes on one GPU. The script stays as it is.

Loaded by `sitecustomize.py` where `USE_GLOO` is set. Only the name of the backend changes, when
`torch.distributed.init_process_group` is called.
"""

import functools
import importlib.util
import sys

_MODULE = "torch.distributed.distributed_c10d"


class _Finder:
    """Steps aside after the module has been found once."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            begin = module.init_process_group

            @functools.wraps(begin)
            def init_process_group(backend=None, *args, **kwargs):
                return begin("gloo" if backend == "nccl" else backend, *args, **kwargs)

            module.init_process_group = init_process_group

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
