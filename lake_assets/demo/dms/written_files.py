"""Counts of written files and rows, which a history and a feed return.

Here: the counters. Not here: comparing (`demo/compare.py`).
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class WrittenFiles:
    """Files and rows that went to the location; `rows` of CDC files are by table and by op."""

    load_files: int = 0
    load_rows: Counter[str] = field(default_factory=Counter)
    """By table."""
    cdc_files: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    seconds: float = 0.0
    """Wall time."""

    @property
    def changes(self) -> int:
        """Rows in all CDC files."""
        return self.rows.total()
