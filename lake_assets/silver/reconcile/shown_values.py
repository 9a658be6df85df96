"""How the value of a cell is shown to users in a difference.

Here: the only place through which such a value passes, so that a masked column is hidden here. Pure.
"""

from lake_assets.config import REDACTED
from lake_assets.silver.table.targets import Target

LONGEST = 100


def shown_value(target: Target, column: str, value: str | None) -> str:
    """The text for a value of the column."""
    if column in target.config.mask:
        return REDACTED  # another writer may have put a plain value there
    if value is None:
        return "NULL"
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value)} characters)"
