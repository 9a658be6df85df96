"""Whether changes are late: not newer than changes that the table has applied. Pure.

A late change may precede an applied one of its key, so that the key is recomputed (`silver/write/late_batch.py`). Not
here: LOAD files that arrive late (`load_doubt.py`), files that the log gives to another epoch
(`bronze/log/admission.py`).
"""

from lake_assets.silver.table.change_events import commit_of


def is_late(lowest: str, applied: str) -> bool:
    """Whether a change is not newer than the table; `lowest` is the lowest sequence of the changes, empty without any,
    `applied` the highest that the table has applied."""
    return "" < lowest <= applied


def may_share_transaction(lowest: str, applied: str) -> bool:
    """Whether a change is late, or may belong to a transaction of which the table has applied a part."""
    return "" < commit_of(lowest) <= commit_of(applied)
