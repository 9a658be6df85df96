"""The rows of docs/outside_changes.md: what happened, what the user sees, and what the user runs.

Here: reading them. Not here: doing what they say (`objects.py`, `catalog.py`, `silver.py`, `settings.py`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from lake_assets_tests.helpers.processes.child import ROOT

PAGE = ROOT / "docs/outside_changes.md"
SAME = "the same"
"""In the second and third column: as in the row above, perhaps with more after it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one table."""

    happened: str
    seen: str
    run: str

    @property
    def messages(self) -> list[list[str]]:
        """The messages that the second column quotes, each as the parts between its gaps and its words in capitals."""
        quoted = [text for text in re.findall(r"`([^`]+)`", self.seen) if "…" in text]
        parts = [re.split(r"…|\b[A-Z]+\b", text) for text in quoted]
        return [[part.strip() for part in text if part.strip()] for text in parts]

    @property
    def commands(self) -> list[list[str]]:
        """What the third column has in backticks, each as its words; TABLE, TIME and lake.yaml are left out."""
        quoted = [text for text in re.findall(r"`([^`]+)`", self.run) if text != "lake.yaml"]
        return [[word for word in text.split() if not word.isupper()] for text in quoted]


def rows(text: str | None = None) -> list[Row]:
    """Every row of every table of the page."""
    found: list[Row] = []
    for table in _tables(PAGE.read_text(encoding="utf-8") if text is None else text):
        above: Row | None = None
        for cells in table:
            row = Row(*cells)
            if above is not None and row.seen == SAME:
                row = replace(row, seen=above.seen)
            if above is not None and row.run.startswith(SAME):
                row = replace(row, run=above.run + row.run.removeprefix(SAME))
            found.append(row)
            above = row
    return found


def _tables(text: str) -> Iterator[list[list[str]]]:
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("| what happened |"):
            next(lines)  # the rule below the heads
            yield [_cells(row) for row in takewhile(lambda row: row.startswith("|"), lines)]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" |")]
