"""Whole transactions over the tables of a stream, though each table's changes come through a shard of their own.

Here: the cut in silver and its tags, as in `test_consistent_cut.py`. Not here: the chain that shows what is whole
(`bronze/log/test_transaction_chain.py`).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.stream import landing
from lake_assets.silver.apply.cut_tags import SourceCut
from lake_assets.silver.table.position import read_position
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.dms_messages import MemoryStream, message
from lake_assets_tests.helpers.lakes.bank import ACCOUNTS, OPENING, SAVINGS, TABLES, Bank, quiet
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.silver.test_consistent_cut import check, common_cuts
from lake_assets_tests.silver.test_stream_histories import SETTINGS, stream

__all__ = ["stream"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = {table: {*config["columns"]} for table, config in TABLES.items()}


def bank_bench(folder: Path, engine: str) -> Bench:
    kafka = {"bootstrap_servers": "unused", "topic": "unused"}
    source = {
        "stream": {"kafka": kafka, "engine": engine, "interval": "0s"},
        "dms": SETTINGS,
        "consistent_cut": {"margin": "5s", "every": "1s", "keep": 100},
    }
    return Bench(folder, TABLES, source=source)


def loads(bank: Bank) -> list[tuple[str, bytes]]:
    """Tables and messages."""
    rows = [{"id": number, "balance": OPENING} for number in range(ACCOUNTS)]
    return [(table, message("load", row, table=table, at=NOON)) for table in bank.balances for row in rows]


def changes(bank: Bank) -> Iterator[tuple[str, bytes]]:
    """Tables and messages, which name each other."""
    before: dict[str, Any] = {}
    transaction, record, at = 0, 0, None
    for table, row in bank.changes:
        same = row["commit_ts"] == at
        transaction, record, at = transaction + (not same), record * same + 1, row["commit_ts"]
        operation = "insert" if row["Op"] == "I" else "update"
        data = {name: value for name, value in row.items() if name in COLUMNS[table]}
        place = {"transaction": transaction, "record": record}
        image: dict[str, Any] | None = {} if operation == "update" else None
        yield table, message(operation, data, before=image, table=table, at=at, **place, **before)
        before = {
            "prev-transaction-id": (1 << 32) + transaction,
            "prev-transaction-record-id": record,
        }


@pytest.mark.parametrize(
    ("engine", "seed"),
    [("mysql", 1), *(pytest.param("postgresql", n, marks=pytest.mark.long) for n in (2, 3))],
)
def test_every_tag_shows_whole_transactions(
    spark: SparkSession,
    tmp_path: Path,
    stream: MemoryStream,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    seed: int,
) -> None:
    # Here, a shard lags because its messages are put late.
    monkeypatch.setattr(landing, "GAP_AFTER", timedelta(hours=1))
    random = Random(seed)
    bank, bench = Bank(random), bank_bench(tmp_path, engine)
    for _ in range(12 if seed == 1 else 40):
        bank.transfer()
    for table, value in loads(bank):
        stream.put(table, value)
    bench.apply()
    coming: dict[str, list[bytes]] = {table: [] for table in TABLES}
    for table, value in changes(bank):
        coming[table].append(value)
    checked, waited = set[datetime](), 0
    while any(coming.values()):
        for table, values in coming.items():
            number = random.choice([0, 4, 9, 18])
            stream.put(table, *values[:number], *values[:number][: random.choice([0, 0, 2])])
            del values[:number]
        bench.apply()
        for cut in common_cuts(bench):
            if cut not in checked:
                check(bench, bank, cut)
                checked.add(cut)
        positions = [read_position(bench.table(name)) for name in ("savings", "giro")]
        waited += sum(position.waiting for position in positions)
    assert len(checked) > 2
    assert waited
    assert bench.lake.runtime.file_log.transactions("shop").gaps == 0
    quiet(bench)
    bench.apply()
    (last,) = common_cuts(bench)[-1:]
    assert last >= bank.clock.now
    check(bench, bank, last)


def test_the_end_of_a_stream(
    spark: SparkSession, tmp_path: Path, stream: MemoryStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing follows the last transaction: it counts when nothing has landed for long, and the stream has nothing
    more. Otherwise, perhaps the process that lands it is dead."""
    bank, bench = Bank(Random(1)), bank_bench(tmp_path, "mysql")
    for _ in range(3):
        bank.transfer()
    for table, value in [*loads(bank), *changes(bank)]:
        stream.put(table, value)
    runtime = bench.lake.runtime
    monkeypatch.setattr("lake_assets.bronze.stream.backlog.ASK_SECONDS", 0)
    monkeypatch.setattr("lake_assets.runtime.opened_client", lambda config, aws: stream.client())
    bench.apply()
    soon = max(file.logged_at for file in runtime.file_log.files("shop"))
    late = soon + timedelta(seconds=30)
    second_last = bank.changes[-4][1]["commit_ts"]
    assert SourceCut.of(runtime, "shop", soon).cut.upto == second_last.replace(microsecond=0)
    assert SourceCut.of(runtime, "shop", late).cut.quiet
    stream.put(SAVINGS, b"{}")
    assert SourceCut.of(runtime, "shop", late).cut.upto == second_last.replace(microsecond=0)
