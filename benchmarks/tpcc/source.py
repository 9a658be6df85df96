"""The source of the mix: its rows, and the DMS files of its transactions.

Of 92 transactions, 45 are of TPC-C's kind New-Order, 43 Payments and 4 Deliveries; TPC-C's other two kinds only read.
Here: rows and files. Not here: who applies the files (`__main__.py`).
"""

import random
from collections import defaultdict, deque
from datetime import timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.large_tables.workloads import BEGUN, LOADED
from benchmarks.tpcc.schema import SHAPES

DISTRICTS, CUSTOMERS, ITEMS, UNDELIVERED = 10, 3_000, 100_000, 900
"""Districts of a warehouse, customers of a district, items of a warehouse, undelivered orders of a district."""
LINES = 10
Row = tuple[Any, ...]
CENT = Decimal("0.01")


class Source:
    """The tables by name, each with its rows by key."""

    def __init__(self, folder: Path, warehouses: int, seed: int = 1) -> None:
        self._folder, self._chance, self._warehouses = folder, random.Random(seed), warehouses
        self.rows: dict[str, dict[Row, Row]] = {name: {} for name in SHAPES}
        self._changes: dict[str, list[tuple[str, str, Row]]] = defaultdict(list)
        self._undelivered: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self._batches = self._sequence = 0
        self._now = LOADED
        for name in SHAPES:
            (folder / "public" / name).mkdir(parents=True)

    def load(self) -> list[Path]:
        """Fills the tables and writes the full load."""
        for warehouse in range(1, self._warehouses + 1):
            self._put("warehouse", (warehouse, f"warehouse {warehouse}", Decimal("300000.00")))
            for item in range(1, ITEMS + 1):
                self._put("stock", (warehouse, item, 50, 0, 0, f"stock of {item}"))
        for place in product(range(1, self._warehouses + 1), range(1, DISTRICTS + 1)):
            self._fill_district(*place)
        written = []
        for name in SHAPES:
            changes = self._changes.pop(name, [])
            written.append(self._write(name, "LOAD00000001", [("I", "", row) for _, _, row in changes]))
        return written

    def _fill_district(self, warehouse: int, district: int) -> None:
        place = (warehouse, district)
        self._put("district", (*place, f"district {district}", Decimal("30000.00"), CUSTOMERS + 1))
        for number in range(1, CUSTOMERS + 1):
            data = f"customer {number} " * 15
            self._put("customer", (*place, number, f"name {number % 1000}", data, Decimal("-10.00"), 1))
            carrier = None if number > CUSTOMERS - UNDELIVERED else number % 10
            self._order(place, number, number, carrier)

    def _order(self, place: tuple[int, int], order: int, customer: int, carrier: int | None = None) -> None:
        self._put("orders", (*place, order, customer, self._now, carrier, LINES))
        if carrier is None:
            self._put("new_order", (*place, order))
            self._undelivered[place].append(order)
        delivered = None if carrier is None else self._now
        for number in range(1, LINES + 1):
            item, amount = self._chance.randint(1, ITEMS), self._chance.randint(1, 999_999) * CENT
            self._put("order_line", (*place, order, number, item, 5, amount, delivered))

    def changes(self, transactions: int) -> list[Path]:
        """Commits transactions and writes their changes, a file for each table that has some."""
        self._batches += 1
        self._now = BEGUN + timedelta(minutes=self._batches)
        kinds = (self._new_order, self._payment, self._delivery)
        for kind in self._chance.choices(kinds, weights=(45, 43, 4), k=transactions):
            self._now += timedelta(milliseconds=10)
            kind(self._chance.randint(1, self._warehouses), self._chance.randint(1, DISTRICTS))
        flushed = self._now + timedelta(seconds=5)
        name = f"{flushed:%Y%m%d-%H%M%S}{flushed.microsecond // 1000:03d}"
        written = [self._write(table, name, changes) for table, changes in self._changes.items()]
        self._changes.clear()
        return written

    def _new_order(self, warehouse: int, district: int) -> None:
        place = (warehouse, district)
        order = self.rows["district"][place][4]
        self._set("district", place, {4: order + 1})
        self._order(place, order, self._chance.randint(1, CUSTOMERS))
        for item in self._chance.sample(range(1, ITEMS + 1), LINES):
            stock = self.rows["stock"][warehouse, item]
            left = stock[2] - 5 if stock[2] >= 15 else stock[2] + 86
            self._set("stock", (warehouse, item), {2: left, 3: stock[3] + 5, 4: stock[4] + 1})

    def _payment(self, warehouse: int, district: int) -> None:
        place, amount = (warehouse, district), self._chance.randint(100, 500_000) * CENT
        customer = (*place, self._chance.randint(1, CUSTOMERS))
        self._set("warehouse", (warehouse,), {2: self.rows["warehouse"][warehouse,][2] + amount})
        self._set("district", place, {3: self.rows["district"][place][3] + amount})
        row = self.rows["customer"][customer]
        self._set("customer", customer, {5: row[5] - amount, 6: row[6] + 1})
        self._put("history", (len(self.rows["history"]) + 1, *customer, self._now, amount, "a payment"))

    def _delivery(self, warehouse: int, district: int) -> None:
        """Delivers the oldest order of each of the warehouse's districts."""
        for place in product([warehouse], range(1, DISTRICTS + 1)):
            order = self._undelivered[place].popleft()
            self._change("D", "new_order", self.rows["new_order"].pop((*place, order)))
            self._set("orders", (*place, order), {5: district})
            total = Decimal(0)
            for number in range(1, LINES + 1):
                line = (*place, order, number)
                total += self.rows["order_line"][line][6]
                self._set("order_line", line, {7: self._now})
            customer = (*place, self.rows["orders"][*place, order][3])
            self._set("customer", customer, {5: self.rows["customer"][customer][5] + total})

    def _put(self, table: str, row: Row) -> None:
        self.rows[table][row[: SHAPES[table].keys]] = row
        self._change("I", table, row)

    def _set(self, table: str, key: Row, values: dict[int, Any]) -> None:
        row = [*self.rows[table][key]]
        for place, value in values.items():
            row[place] = value
        self.rows[table][key] = tuple(row)
        self._change("U", table, tuple(row))

    def _change(self, op: str, table: str, row: Row) -> None:
        self._sequence += 1
        self._changes[table].append((op, f"{self._now:%Y%m%d%H%M%S}00{self._sequence:019d}", row))

    def _write(self, table: str, name: str, changes: list[tuple[str, str, Row]]) -> Path:
        times = pa.array([f"{self._now:%Y-%m-%d %H:%M:%S}.000000"] * len(changes))
        images = rows_of(table, [row for _, _, row in changes])
        rows = pa.table({"Op": [op for op, _, _ in changes], "commit_ts": times})
        for column in images.column_names:
            rows = rows.append_column(column, images[column])
        rows = rows.append_column(
            "change_seq", pa.array([sequence for _, sequence, _ in changes], pa.string())
        )
        path = self._folder / "public" / table / f"{name}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(rows, hidden, row_group_size=10_024)
        hidden.replace(path)
        return path


def rows_of(table: str, rows: list[Row]) -> pa.Table:
    """Rows with the table's columns and types."""
    schema = SHAPES[table].types
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
