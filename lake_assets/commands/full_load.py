"""`lake-assets full-load`: somebody says what files cannot: whether parts that came late are a reload.

Here: which parts, and the records that say so. Not here: why they are doubtful (`silver/plan.py`), printing
(`cli.py`).
"""

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.keys import FileKind
from lake_assets.errors import LakeError
from lake_assets.iceberg.tables import load_table
from lake_assets.lake import Lake
from lake_assets.silver.plan import newest_versions
from lake_assets.silver.position import read_position


def decide(lake: Lake, table: str, source: str | None, *, reload: bool) -> list[LoggedFile]:
    """Logs the doubtful parts of a table (`schema.table`) once more: as the first of the next full load, or as parts of
    the one that the table stands on. The decision is in the file log, so that a rebuild makes it again. Returns the
    records. Raises LakeError when there is nothing to decide."""
    targets = [t for t in lake.targets if t.table == table and source in (None, t.source)]
    sources = sorted({target.source for target in targets})
    if len(sources) > 1:
        raise LakeError(f"{table} is a table of {' and '.join(sources)}: name one with --source.")
    if not sources:
        raise LakeError(f"lake.yaml has no table {table}.")
    logged = lake.runtime.file_log.files(sources[0], table)
    loads = [file for file in logged if file.kind is FileKind.LOAD]
    epoch = max((file.epoch for file in loads), default=0)
    parts = newest_versions(file for file in loads if file.epoch == epoch)
    positions = [read_position(load_table(lake.runtime.catalog, target.identifier)) for target in targets]
    standing = [position.log_offset for position in positions if position.epoch == epoch]
    # A change log goes on meanwhile: what waits is above the lowest.
    late = [part for part in parts if standing and part.offset > min(standing)]
    if not late or len(late) == len(parts):
        raise LakeError(f"{table}: no full-load file came after its full load had been applied.")
    return lake.runtime.file_log.ask_again(late, epoch=epoch + 1 if reload else epoch)
