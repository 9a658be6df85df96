"""The tables of the mix: their columns and keys, a subset of those of TPC-C.

Not here: their rows (`source.py`).
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

KINDS: dict[str, tuple[str, pa.DataType]] = {
    "id": ("long not null", pa.int64()),
    "number": ("long", pa.int64()),
    "amount": ("decimal(12, 2)", pa.decimal128(12, 2)),
    "text": ("string", pa.string()),
    "time": ("timestamptz", pa.timestamp("us", "UTC")),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A table. The first columns are its key."""

    keys: int
    columns: dict[str, str]
    """Names and KINDS."""

    @property
    def key(self) -> list[str]:
        return list(self.columns)[: self.keys]

    @property
    def section(self) -> dict[str, Any]:
        """The table's section of lake.yaml."""
        declared = {name: KINDS[kind][0] for name, kind in self.columns.items()}
        return {"columns": declared, "primary_key": self.key, "full_load_complete": "immediately"}

    @property
    def types(self) -> pa.Schema:
        return pa.schema([(name, KINDS[kind][1]) for name, kind in self.columns.items()])


def _shape(keys: str, **others: str) -> Shape:
    names = keys.split()
    return Shape(len(names), dict.fromkeys(names, "id") | others)


SHAPES = {
    "warehouse": _shape("w_id", w_name="text", w_ytd="amount"),
    "district": _shape("d_w_id d_id", d_name="text", d_ytd="amount", d_next_o_id="number"),
    "customer": _shape(
        "c_w_id c_d_id c_id", c_last="text", c_data="text", c_balance="amount", c_payment_cnt="number"
    ),
    "stock": _shape(
        "s_w_id s_i_id", s_quantity="number", s_ytd="number", s_order_cnt="number", s_data="text"
    ),
    "orders": _shape(
        "o_w_id o_d_id o_id", o_c_id="number", o_entry_d="time", o_carrier_id="number", o_ol_cnt="number"
    ),
    "new_order": _shape("no_w_id no_d_id no_o_id"),
    "order_line": _shape(
        "ol_w_id ol_d_id ol_o_id ol_number",
        ol_i_id="number",
        ol_quantity="number",
        ol_amount="amount",
        ol_delivery_d="time",
    ),
    "history": _shape(
        "h_id",
        h_w_id="number",
        h_d_id="number",
        h_c_id="number",
        h_date="time",
        h_amount="amount",
        h_data="text",
    ),
}
