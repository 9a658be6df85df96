"""Gives constants of the package other values in a process that a test starts.

Python imports this module when a process starts that has its folder on PYTHONPATH. The variable TEST_CONSTANTS has the
values as JSON, by module and name, in seconds where the constant is a duration; `child_constants.py` sets both.
"""

import json
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

VALUES: dict[str, dict[str, Any]] = json.loads(os.environ.get("TEST_CONSTANTS", "{}"))


class Changed(MetaPathFinder):
    """Finds the modules, and changes them before another module can take a value from them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in VALUES else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for constant, value in VALUES[name].items():
                former = getattr(module, constant)
                setattr(
                    module, constant, timedelta(seconds=value) if isinstance(former, timedelta) else value
                )

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Changed())
