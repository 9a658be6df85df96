"""What the scripts of the contenders share: they serve the benchmark's calls, a line of JSON each.

The scripts run in environments without this package, so they import nothing of it.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Table(Protocol):
    """A contender's table."""

    def load(self, files: Sequence[str]) -> None:
        """Creates the table from the files of a full load."""

    def apply(self, files: Sequence[str]) -> None:
        """Applies the files of a batch."""

    def write_rows(self, folder: str) -> None:
        """Writes the table's rows to Parquet files in a new folder."""


def serve(kind: Callable[..., Table]) -> None:
    """Runs each call that standard input names on a table, and answers it on standard output. The table is made of the
    command's arguments."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Java prints there, too
    table = kind(*sys.argv[1:])
    for line in sys.stdin:
        call: dict[str, Any] = json.loads(line)
        getattr(table, call["method"])(call["argument"])
        print("done", file=answers, flush=True)
