"""Some records of the log are replaced by one: of files that are one file now.

Here: the commit. Not here: which files (`bronze/stream/merging.py`), the log's own data files
(`../file_log_maintenance.py`).
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from lake_assets.bronze.log.log_record import LoggedFile, to_arrow


def replace_records(table: Table, former: Sequence[LoggedFile], new: Sequence[LoggedFile]) -> None:
    """One commit, which fails with CommitFailedException if main has moved. A `new` record has the offset of the last
    of those that it replaces. Does nothing if the log has the `new` ones already: the answer to a commit may have been
    lost. Raises ValueError if one of the `former` is not in the log."""
    rows = table.scan().to_arrow()
    gone = pc.is_in(rows["offset"], pa.array([record.offset for record in former], pa.int64()))
    names = ("offset", "key", "version")
    found = {*zip(*(rows.filter(gone)[name].to_pylist() for name in names), strict=True)}
    if found == _places(new):
        return
    if found != _places(former):
        raise ValueError("a record that is replaced is not in the log")
    kept = rows.filter(pc.invert(gone))
    table.overwrite(pa.concat_tables([kept, to_arrow(new).cast(kept.schema)]).sort_by("offset"))


def _places(records: Sequence[LoggedFile]) -> set[tuple[int, str, str]]:
    return {(record.offset, record.key, record.version) for record in records}
