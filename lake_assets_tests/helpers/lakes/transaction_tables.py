"""Tables of two schemas whose changes come in files of whole transactions. Not here: the files (`dms_files.py`)."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from lake_assets_tests.helpers.files.dms_files import NOON

TRANSACTIONS: dict[str, Any] = {
    "preserve_transactions": True,
    "cdc_path": "cdc",
    "add_column_name": False,
    "csv_null_value": "\\N",
}
ITEMS, NOTES, AUDIT, EVENTS = "public.items", "public.notes", "audit.items", "public.events"
STOPS = {"quarantine": {"max_rows": 0, "max_files": 0}}
TABLES: dict[str, Any] = {
    ITEMS: STOPS
    | {
        "columns": {"id": "long not null", "name": "string", "note": "string", "price": "decimal(10, 2)"},
        "primary_key": ["id"],
    },
    NOTES: {"columns": {"id": "long not null"}, "primary_key": ["id"], **STOPS},
    AUDIT: STOPS
    | {
        "columns": {"id": "long not null", "part": "string not null", "at": "timestamptz"},
        "primary_key": ["id", "part"],
        "name": "audit_items",
    },
}
SILVER = {ITEMS: "items", NOTES: "notes", AUDIT: "audit_items"}


def minutes(number: float) -> Any:
    """A flush so long after the full load."""
    return NOON + timedelta(minutes=10 + number)


def item(
    key: int, name: str | None = None, note: str | None = None, price: str | None = None
) -> dict[str, Any]:
    """A row of ITEMS."""
    return {"id": key, "name": name, "note": note, "price": price and Decimal(price)}
