"""`lake-assets maintain`: the maintenance of silver, marts, own assets' tables and the platform's own tables.

Here: which tables. Not here: the steps (`rounds/maintenance.py`, `rounds/ops_upkeep.py`), printing
(`maintain_cli.py`).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

from lake_assets.bronze.reader.staging import drop_abandoned
from lake_assets.bronze.stream.orphans import remove_orphans
from lake_assets.gold.mart import Mart
from lake_assets.gold.write.own_tables import OwnTable, own_tables
from lake_assets.iceberg.upkeep.table_maintenance import Maintained, timed
from lake_assets.lake import Lake
from lake_assets.rounds.maintenance import files_of, maintain_mart, maintain_silver
from lake_assets.rounds.merged_landings import merge_landed
from lake_assets.rounds.ops_upkeep import OPS, maintain_ops
from lake_assets.rounds.superseded_files import delete_superseded
from lake_assets.silver.table.targets import Target


def maintain(lake: Lake, source: str | None = None, table: str | None = None) -> Iterator[Maintained]:
    """Maintains one table after the other and yields a result for each. A failure is in the result; the other tables
    are maintained.

    With a source or a table (a name that `Target.is_called` accepts), only its silver tables; otherwise also the marts,
    own assets' tables and `lake_ops`, and the files of sources: small ones of streams are merged, those that killed
    readers left are removed, and those that a full load has superseded are deleted after their time.
    """
    for target in chosen_targets(lake, source, table):
        yield maintain_silver(lake.runtime, lake.marts, target)
    if source is None and table is None:
        marts: list[Mart | OwnTable] = [*lake.marts, *own_tables(lake.runtime.catalog, lake.tables)]
        for mart in marts:
            yield maintain_mart(lake.runtime, mart)
        for identifier in OPS:
            yield maintain_ops(lake.runtime, identifier)
        drop_abandoned(lake.runtime.catalog, datetime.now(UTC))
        for name, config in lake.config.sources.items():
            if config.stream is not None:
                yield timed(files_of(name), partial(_maintain_files, lake, name))
            # Last: the fewer commits the tables have, the fewer files they need.
            yield from delete_superseded(lake.runtime, name).values()


def chosen_targets(lake: Lake, source: str | None, table: str | None) -> list[Target]:
    """The silver tables of a source and of a name that `Target.is_called` accepts; None for any."""
    return [
        target
        for target in lake.targets
        if source in (None, target.source) and (table is None or target.is_called(table))
    ]


def _maintain_files(lake: Lake, source: str, done: Maintained) -> None:
    while merge_landed(lake.runtime, source, done):
        pass
    logged = {record.key for record in lake.runtime.file_log.records(source)}
    done.orphans_removed = remove_orphans(lake.runtime.store(source), logged, datetime.now(UTC))
