from __future__ import annotations

from collections.abc import Callable
from multiprocessing.process import BaseProcess

import pytest
from controllers import make_starter


@pytest.fixture(scope="session")
def start_controller() -> Callable[..., BaseProcess]:
    return make_starter()
