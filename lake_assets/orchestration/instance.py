"""The Dagster instance that a command reports to, so that the UI shows what the command did.

`dagster dev` and the commands find the same storage in `dagster.yaml` beside lake.yaml, or in DAGSTER_HOME. Without
either, the instance is ephemeral: the lake itself needs no Dagster storage.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg


@contextlib.contextmanager
def dagster_instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    """The instance for a lake.yaml in `folder`."""
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
            yield instance
    elif (folder / "dagster.yaml").is_file():
        # Dagster resolves its relative paths against the working directory, also in `dagster dev`.
        with contextlib.chdir(folder), dg.DagsterInstance.from_config(str(folder)) as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance
