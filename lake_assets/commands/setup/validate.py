"""`lake-assets validate`: checks lake.yaml against Dagster, the marts and the files in the bucket.

Here: what the models of lake.yaml cannot check. Not here: those models (`config/`), printing (`cli.py`).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import islice

from pydantic import ValidationError

from lake_assets.bronze.files.inspect import UnreadableFile, inspect_file
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import DataFile, FileKind
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.scan.table_folders import TableFolders
from lake_assets.commands.setup.added_columns import AddedColumns
from lake_assets.commands.setup.schema_plan import why_stopped
from lake_assets.config import SourceConfig, TableConfig, TableName, did_you_mean
from lake_assets.config.base import Keys
from lake_assets.config.config_file import mistakes_of
from lake_assets.config.lake_config import READERS_OF_VERSION_2
from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.catalog import is_there
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.orchestration.definition_problems import refused_definitions, refused_owners
from lake_assets.outputs.reader_statements import format_versions
from lake_assets.runtime import owner_of
from lake_assets.silver.table.partition_edits import unapplied_partitions
from lake_assets.spark.causes import root_cause
from lake_assets.storage.object_store import ObjectGone, StoredObject, StoreError

MOST_LISTED = 1000
"""Files of a table, above its newest logged one, that are listed."""
MOST_BYTES = 64 << 20
"""A larger text file is not read for its header."""
THREADS = 8


@dataclass(slots=True)
class Checked:
    """The result."""

    mistakes: dict[tuple[Keys, str], None] = field(default_factory=dict)
    """The keys of lake.yaml, and what is wrong; each once."""
    warnings: list[str] = field(default_factory=list)


def check(lake: Lake) -> Checked:
    """Finds every mistake, and whatever would stop a table at the next `sync`. Reads the lake, and the columns of files
    that are not logged yet; writes nothing."""
    checked = Checked()
    for keys, text in [*_start_date_mistakes(lake), *_mart_setting_mistakes(lake), *refused_owners(lake)]:
        checked.mistakes[keys, text] = None
    if not checked.mistakes and (refusal := refused_definitions(lake)) is not None:
        checked.mistakes[(), refusal] = None
    for reason in lake.broken:
        checked.mistakes[(), reason] = None
    log = _known_log(lake, checked)
    arriving: dict[tuple[str, str], list[LoggedFile]] = {}
    for name, source in lake.config.sources.items():
        newest = list(log.newest(name).values()) if log is not None else []
        for table, config in source.tables.items():
            logged = [file for file in newest if file.qualified_table == table]
            try:
                arriving[name, table] = found = _arriving(lake, name, table, logged)
            except (StoreError, OSError) as error:
                checked.warnings.append(f"{name} {table}: its files could not be read: {error}")
            else:
                _headers(name, table, config, source, [*logged, *found], checked)
    has_log = log is not None and log.head() > 0
    if has_log:
        _note_partitions(lake, checked)
    for keys, text in _reader_mistakes(lake):
        checked.mistakes[keys, text] = None
    stopped = why_stopped(lake, arriving, has_log=has_log)
    for target in lake.targets:
        if (why := stopped.get(target.identifier)) is not None:
            checked.mistakes[("sources", target.source, "tables", target.table), why] = None
    return checked


def _start_date_mistakes(lake: Lake) -> Iterator[tuple[Keys, str]]:
    today = datetime.now(UTC).date()
    if lake.config.gold.start_date > today:
        yield (
            ("gold", "start_date"),
            f"is in the future (today is {today}, UTC): there would be no day to compute",
        )


def _mart_setting_mistakes(lake: Lake) -> Iterator[tuple[Keys, str]]:
    given = lake.config.gold.settings
    known: set[str] = set()
    for mart in lake.marts:
        if mart.settings is None:
            continue
        known |= set(mart.settings.model_fields)
        try:
            mart.settings.model_validate(given)
        except ValidationError as error:
            for keys, text in mistakes_of(error, given):
                yield ("gold", "settings", *keys), f"{text} (the mart {mart.name})"
    for name in given:
        if name not in known and (near := did_you_mean(name, known)):
            yield ("gold", "settings", name), f"is not a setting of a mart{near}"


def _reader_mistakes(lake: Lake) -> Iterator[tuple[Keys, str]]:
    """The tables of format version 3 that a reader of lake.yaml cannot read."""
    limited = [reader for reader in lake.config.readers if reader in READERS_OF_VERSION_2]
    if not limited:
        return
    for identifier, (version, is_made) in format_versions(lake).items():
        if version > 2:
            then = ", drop the table, and let the next run make it again" if is_made else ""
            text = f"{' and '.join(limited)} cannot read {identifier}, whose format version is {version}"
            yield ("readers",), f"{text}: set format_version: 2{then}"


def _known_log(lake: Lake, checked: Checked) -> FileLog | None:
    """The file log, or None if the lake has none yet or the catalog fails."""
    if not is_there(lake.config.catalog):
        return None
    try:
        log = FileLog(lake.runtime.catalog, owner=owner_of(lake.config))
        log.head()
    except Exception as error:  # noqa: BLE001  (whatever a catalog's client raises: the files can be checked without it)
        reason = hidden_in(lake.config, root_cause(error))
        checked.warnings.append(f"the file log could not be read from the catalog: {reason}")
        return None
    return log


def _note_partitions(lake: Lake, checked: Checked) -> None:
    for target in lake.targets:
        note = unapplied_partitions(target, load_table(lake.runtime.catalog, target.identifier))
        checked.warnings += [note] if note is not None else []


def _headers(
    name: str,
    table: str,
    config: TableConfig,
    source: SourceConfig,
    files: Sequence[LoggedFile],
    checked: Checked,
) -> None:
    """Checks the names of the columns that DMS adds against the newest files."""
    added = AddedColumns.of(table, config, source, files)
    if added is None:
        return
    checked.warnings += [f"{name} {table}: {text}" for text in added.warnings()]
    for setting, text in added.mistakes().items():
        own = ("tables", table) if setting in config.dms else ()
        checked.mistakes[("sources", name, *own, "dms", setting), text] = None


def _arriving(lake: Lake, name: str, table: str, logged: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Files of the table that are not logged yet, as the log would record them: all Parquet files, and the newest text
    file of each kind, whose columns only its header states."""
    source, store = lake.config.sources[name], lake.runtime.store(name)
    prefix, known = TableName.parse(table).prefix, {file.key for file in logged}
    folders, found = TableFolders(source), dict[object, tuple[StoredObject, DataFile]]()
    # The names of CDC files rise with time, and those of full-load files are above them.
    newest = max((file.key for file in logged if file.kind is FileKind.CDC), default="")
    after = newest if newest.startswith(prefix) else ""
    for obj in islice(store.list(prefix, start_after=after), MOST_LISTED):
        parsed = folders.parse(obj.key)
        if not isinstance(parsed, DataFile) or parsed.qualified_table != table or obj.key in known:
            continue
        if parsed.format == "parquet":
            found[obj.key] = (obj, parsed)
        elif obj.size <= MOST_BYTES:
            found[parsed.kind] = (obj, parsed)
    # A scan logs a full load before the changes since.
    ordered = sorted(found.values(), key=lambda one: one[1].kind is not FileKind.LOAD)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="columns") as threads:
        inspected = list(threads.map(lambda one: _inspected(lake, name, one[1]), ordered))
    head = max((file.offset for file in logged), default=0)
    epoch = max((file.epoch for file in logged), default=1)
    return [
        _as_logged(
            name, head + place, epoch, NewFile.of(obj, file, "", seen, schema=file.schema, table=file.table)
        )
        for place, ((obj, file), seen) in enumerate(zip(ordered, inspected, strict=True), start=1)
    ]


def _inspected(lake: Lake, name: str, file: DataFile) -> FileInspection:
    dms = lake.config.sources[name].settings(file.qualified_table)
    try:
        return inspect_file(lake.runtime.store(name), file, dms, with_content=False)
    except (UnreadableFile, ObjectGone):
        return FileInspection()


def _as_logged(source: str, offset: int, epoch: int, file: NewFile) -> LoggedFile:
    facts = {field.name: getattr(file, field.name) for field in fields(NewFile)}
    return LoggedFile(**facts, offset=offset, source=source, logged_at=datetime.now(UTC), epoch=epoch)
