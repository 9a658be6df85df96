"""The sentence about changes that refer to rows which a table does not have.

Not here: counting them (`silver/apply/apply_batch.py`), the check (`orchestration/checks/silver_checks.py`).
"""

from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.words import many


def unknown_rows_sentence(target: Target, position: Position) -> str | None:
    """A sentence about changes that referred to rows which the table did not have; None without such changes, and with
    `cdc_only`."""
    if not position.unknown_rows or target.config.cdc_only:
        return None
    rows = many(position.unknown_rows, "row")
    if position.epoch:
        return (
            f"since the full load, updates referred to {rows} that the table did not have: an earlier file may be "
            "missing"
        )
    return (
        f"there is no full load, and updates or deletes referred to {rows} that the table never had: have DMS load the "
        "table, or set cdc_only: true if that is intended"
    )
