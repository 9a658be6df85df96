"""A shop whose tables each get a file with every change, and the same shop with maintenance between the batches.

Here: the tables, their changes, single turns and `maintain`, and the checks that every test makes. Not here: the
cases (`test_exactly_once.py`, `test_maintenance.py`, `test_races.py`).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.table.snapshots import Snapshot

from lake_assets.bronze.reader.staging import Staging
from lake_assets.commands.run.maintain import maintain
from lake_assets.config import Mode
from lake_assets.iceberg.table_io import RESTAMP_OF, summary
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.silver.apply.engine import apply_table
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.planner import plan_batch
from lake_assets.silver.table.position import LOG_OFFSET, read_position
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, main_snapshots

COLUMNS = {"id": "long not null", "v": "string not null"}
KEYED: dict[str, Any] = {"columns": COLUMNS, "primary_key": ["id"]}
LOG: dict[str, Any] = {"columns": COLUMNS, "mode": "append_log"}
REWRITE = (
    "CALL {catalog}.system.rewrite_data_files("
    "table => 'silver_shop.items', options => map('rewrite-all', 'true'))"
)
KEEP_NOTHING: dict[str, Any] = {"keep_snapshots": "0s"}
"""Expires all that neither the position nor a mart needs."""


class KeyedShop:
    """A lake whose tables each get one more file with every `change`."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Clock()
        self.turns = 0

    def load(self) -> None:
        """A full load of five rows for each table."""
        rows = [{"id": n, "v": "loaded"} for n in range(1, 6)]
        self.bench.put(*(load_file(table, rows) for table in self.bench.tables))

    def change(self) -> None:
        """Updates, moves, deletes and inserts where the table can; inserts in a log."""
        self.turns += 1
        self.clock.now += timedelta(minutes=1)
        n, change = self.turns, self.clock.change
        new = [change("I", {"id": 100 + n, "v": "new"}), change("I", {"id": 200 + n, "v": "new"})]
        rest = [
            change("U", {"id": 100 + n, "v": f"turn {n}"}),
            change("U", {"id": 1, "v": f"turn {n}"}),
            change("U", {"id": 300 + n, "v": "moved"}, {"id": 200 + n}),
            change("D", {"id": 1 + n, "v": None}),
        ]
        for table, config in self.bench.tables.items():
            rows = new + rest if config.get("primary_key") else new
            self.bench.put(cdc_file(table, self.clock.now, rows))
        self.bench.look()

    def check(self) -> None:
        """The oracle's rows, and each stretch of the log in one commit."""
        for target in self.bench.lake.targets:
            assert self.bench.rows(target.name) == self.bench.truth(target.table, target.mode.value), (
                target.name
            )
            offsets = [int(s) for s in self.stamps(target)]
            assert sorted(set(offsets)) == offsets, f"{target.name} was brought to {offsets}"

    def stamps(self, target: Target) -> list[str]:
        """The positions of the table's commits, in order, without re-stamps, which repeat a position by design."""
        found = [summary(snapshot) for snapshot in self.chain(target.name)]
        return [own[LOG_OFFSET] for own in found if LOG_OFFSET in own and RESTAMP_OF not in own]

    def chain(self, name: str = "items") -> list[Snapshot]:
        """Main's snapshots that still exist, the oldest first."""
        return main_snapshots(self.bench.table(name))

    @property
    def items(self) -> Target:
        return self.bench.lake.targets[0]

    def turn_of_items(
        self, progress: Callable[[Target, str], None] = lambda target, stage: None
    ) -> TableResult:
        """A turn of items alone."""
        return apply_table(self.bench.lake.runtime, self.items, progress)

    def work(self) -> BatchContext:
        """The next batch of items, planned but not begun."""
        runtime, target = self.bench.lake.runtime, self.items
        logged = runtime.file_log.files(target.source, target.table)
        position = read_position(self.bench.table())
        policy, now = target.config.full_load_complete, datetime.now(UTC)
        plan = plan_batch(position, logged, mode=Mode.CURRENT, policy=policy, now=now, max_files=100)
        batch = plan.batch
        assert batch is not None
        contracts = runtime.contracts.of(target.identifier)
        staging = Staging(runtime.catalog, runtime.lake.catalog.name)
        spark = runtime.sessions.root()
        return BatchContext(
            runtime, spark, target.under(contracts), position, batch, logged, contracts, staging
        )

    def sql(self, statement: str) -> None:
        """Runs a statement of Spark SQL, in which `{table}` and `{catalog}` stand for those of items."""
        name = self.bench.lake.config.catalog.name
        self.bench.lake.runtime.sessions.root().sql(
            statement.format(catalog=name, table=f"{name}.silver_shop.items")
        )


class MaintainedShop(KeyedShop):
    """The same shop with maintenance between the batches."""

    def maintain(self) -> dict[str, Maintained]:
        """Maintenance in which nothing may fail, by table."""
        done = {one.table: one for one in maintain(self.bench.lake)}
        for one in done.values():
            if one.error is not None:
                raise one.error
        return done


def maintained_shop(
    folder: Path, maintenance: Mapping[str, Any] | None = None, **tables: Mapping[str, Any]
) -> MaintainedShop:
    """A loaded shop; `items` unless other tables are given, by their names without the schema."""
    named = {f"public.{name}": dict(table) for name, table in (tables or {"items": KEYED}).items()}
    # A table that is rewritten has no small files.
    sections = {"maintenance": maintenance or KEEP_NOTHING, "automation": {"rewrite_below_mb": 0}}
    shop = MaintainedShop(Bench(folder, named, sections=sections))
    shop.load()
    shop.bench.apply()
    return shop
