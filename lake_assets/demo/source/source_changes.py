"""One committed change of the source, between the database and the CDC file.

Here: the record and its change sequence. Not here: the parts that a file shows (`demo/dms/dms_layout.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lake_assets.demo.source.source_values import Stored

_NOT_DIGITS = str.maketrans("", "", "-: .")

SEQUENCE_STEP = 4
"""The counter leaves gaps, as DMS's does; a key change may need a second number inside the gap."""

TRANSACTION_STEP = 12


class Change(NamedTuple):
    """One row-level change; values are in the source database's stored form (`source_values.py`).

    `image` is the row after the change, for a D the row before it. `before_key` is the primary key before a U, in
    the key's order, None otherwise. `committed_at` is text, UTC, microseconds. `sequence` has 35 digits.
    """

    table: str
    op: str
    committed_at: str
    sequence: str
    before_key: tuple[Stored, ...] | None
    image: tuple[Stored, ...]


class ChangeSink(Protocol):
    """Receives the changes of a transaction while it commits."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Called once per transaction, before the database's own COMMIT; raising makes the transaction fail."""


def change_sequence(committed_at: str, counter: int) -> str:
    """16 digits of the commit timestamp (to the centisecond) and 19 of the counter, as in AR_H_CHANGE_SEQ."""
    return f"{committed_at.translate(_NOT_DIGITS)[:16]}{counter:019d}"


def next_sequence(sequence: str) -> str:
    """The number directly above, which `SEQUENCE_STEP` keeps free."""
    return f"{sequence[:16]}{int(sequence[16:]) + 1:019d}"
