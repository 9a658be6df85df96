"""How far a reader of an Iceberg table is behind: the reader has read one of the table's metadata files. Pure."""

from datetime import UTC, datetime

from pyiceberg.table import Table


def behind_since(table: Table, shown: str | None) -> datetime | None:
    """When the first commit that the reader lacks became the table's newest state, UTC; None if it lacks none.

    `shown`: the metadata file that it has read last; None if it has read none. A file that the table does not list any
    more is older than all that it lists. Metadata that changes no row, as of a branch, is not lacking.
    """
    files = {_name(entry.metadata_file): entry.timestamp_ms for entry in table.metadata.metadata_log}
    files[_name(table.metadata_location)] = table.metadata.last_updated_ms
    read = files.get(_name(shown), min(files.values())) if shown is not None else None
    changes = [entry.timestamp_ms for entry in table.metadata.snapshot_log]
    lacking = [at for at in changes if read is None or at > read]
    return datetime.fromtimestamp(min(lacking) / 1000, UTC) if lacking else None


def _name(file: str) -> str:
    """A reader may spell the scheme and the bucket otherwise; the name has a UUID."""
    return file.rsplit("/", 1)[-1]
