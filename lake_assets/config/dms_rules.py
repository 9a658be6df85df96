"""Endpoint settings that DMS refuses together, that lose data, or that leave the order of changes open.

Here: one rule for each, over the settings in force for one table. Not here: the values of a single setting (`dms.py`),
or its place in lake.yaml (`lake_config.py`).
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from lake_assets.config.aws.streams import StreamConfig
from lake_assets.config.base import Mistake
from lake_assets.config.dms import STREAM_SETTINGS, DmsSettings
from lake_assets.config.tables import KEYED_MODES, Mode, TableConfig
from lake_assets.local_times import goes_back

Conflict = tuple[tuple[str, ...], str]
"""The conflicting settings, first the one to report; and the reason, which in the message follows the name of that
setting."""

_SINCE = datetime(2018, 1, 1, tzinfo=UTC)
"""Changes that a source commits now are later."""
WHOLE_TASK = ("preserve_transactions", "cdc_path")
"""A transaction file has rows of every table, so these settings apply to the whole task."""
WHOLE_FILE = ("csv_delimiter", "csv_row_delimiter", "rfc_4180")
_OF_BOTH = frozenset({"change_sequence_column", "lob_mode", "lob_max_size", "longest_lob"})
"""Settings of the task and its mapping, which count whatever the target."""


def conflicts(table: TableConfig, dms: DmsSettings) -> Iterator[Conflict]:
    """The conflicts between the settings in force for one table."""
    yield from _text(dms)
    yield from _columns(table, dms)
    yield from _transactions(table, dms)
    yield from _left_out(table, dms)
    yield from _full_row(table, dms)
    yield from _lobs(dms)
    yield from _validation(dms)
    shapes = {table.mode, *table.also}
    # In the other shapes, a row with an ambiguous commit time is bad unless the table has the setting.
    if KEYED_MODES & shapes or (table.ambiguous_times is not None and shapes != {Mode.APPEND_LOG}):
        yield from _order(dms)


def _text(dms: DmsSettings) -> Iterator[Conflict]:
    if dms.csv_delimiter in dms.csv_row_delimiter:
        yield (
            ("csv_row_delimiter", "csv_delimiter"),
            "contains csv_delimiter: the end of a row cannot be distinguished from the end of a field",
        )
    if dms.rfc_4180 and '"' in dms.csv_delimiter + dms.csv_row_delimiter:
        yield (("csv_delimiter", "csv_row_delimiter"), "must not contain the quote while rfc_4180 is true")
    if any(mark in dms.csv_null_value for mark in (dms.csv_delimiter, dms.csv_row_delimiter)):
        yield (
            ("csv_null_value", "csv_delimiter", "csv_row_delimiter"),
            "contains a delimiter, so that NULL cannot be distinguished from two fields",
        )
    if any(mark in (dms.csv_no_sup_value or "") for mark in (dms.csv_delimiter, dms.csv_row_delimiter)):
        yield (
            ("csv_no_sup_value", "csv_delimiter", "csv_row_delimiter"),
            "contains a delimiter, so that no field can have this value",
        )
    if dms.csv_no_sup_value is not None and dms.csv_no_sup_value == dms.csv_null_value:
        yield (
            ("csv_no_sup_value", "csv_null_value"),
            "is csv_null_value too, so that a column that was not logged would become NULL",
        )


def _columns(table: TableConfig, dms: DmsSettings) -> Iterator[Conflict]:
    names = {column.name for column in table.columns}
    own = {
        "operation_column": (dms.operation_column,),
        "timestamp_column_name": (dms.timestamp_column_name,),
        "change_sequence_column": (dms.change_sequence_column,),
        "added_columns": tuple(name for name in dms.added_columns if name != dms.change_sequence_column),
    }
    taken: dict[str, str] = {}
    for setting, added in own.items():
        for name in added:
            if name is None:
                continue
            if name in taken:
                yield (
                    (setting, taken[name]),
                    f"names {name}, which {'it names before' if taken[name] == setting else f'is {taken[name]} too'}",
                )
            elif setting == "added_columns" and name in names:
                yield (("added_columns",), f"names {name}, which is one of the table's columns")
            taken.setdefault(name, setting)


def _transactions(table: TableConfig, dms: DmsSettings) -> Iterator[Conflict]:
    for setting in WHOLE_TASK:
        if setting in table.dms:
            yield (
                (setting,),
                "is the task's for all of its tables: set it under the source's dms, or make this table's "
                "task a source of its own",
            )
    if dms.batch_apply_enabled:
        yield (
            ("batch_apply_enabled",),
            "must be false: DMS does not support BatchApplyEnabled with an S3 target and loses "
            "data; switch it off in the task's settings",
        )
    if not dms.preserve_transactions:
        return
    for setting in WHOLE_FILE:
        if setting in table.dms:
            yield (
                (setting, "preserve_transactions"),
                "cannot differ from the source's: with preserve_transactions, a file holds rows of several tables",
            )
    if dms.cdc_path is None:
        yield (
            ("preserve_transactions", "cdc_path"),
            "needs cdc_path, the endpoint's CdcPath: DMS writes transactions there",
        )
    for setting, has in (
        ("date_partition_enabled", "no date folder"),
        ("add_column_name", "rows of several tables"),
    ):
        if getattr(dms, setting):
            yield (
                ("preserve_transactions", setting),
                f"cannot be combined with {setting}: DMS refuses it, because a file of transactions has {has}",
            )


def _left_out(table: TableConfig, dms: DmsSettings) -> Iterator[Conflict]:
    """Operations that the endpoint does not write. A table that needs them would silently be wrong, so the settings are
    refused, unless `never` declares that the source does not do them."""
    if dms.cdc_inserts_only and dms.cdc_inserts_and_updates:
        yield (
            ("cdc_inserts_and_updates", "cdc_inserts_only"),
            "and cdc_inserts_only exclude each other: DMS refuses both",
        )
        return
    shapes = {table.mode, *table.also} - {Mode.APPEND_LOG}
    for setting, lost in (
        ("cdc_inserts_only", ("updated", "deleted")),
        ("cdc_inserts_and_updates", ("deleted",)),
    ):
        unsaid = [change for change in lost if change not in table.never]
        if getattr(dms, setting) and shapes and unsaid:
            other = " or mode: append_log" if setting == "cdc_inserts_only" else ""
            yield (
                (setting,),
                f"omits changes that a table of mode {min(shapes)} needs: rows that are {' or '.join(unsaid)} at the "
                f"source would stay as they were. Switch it off on the endpoint, or say never: [{', '.join(lost)}]"
                f"{other} for the table",
            )
    headerless = dms.data_format == "csv" and not dms.add_column_name
    if (
        dms.cdc_inserts_and_updates
        and headerless
        and not dms.include_op_for_full_load
        and dms.op_in_cdc is None
    ):
        yield (
            ("cdc_inserts_and_updates", "include_op_for_full_load", "op_in_cdc", "add_column_name"),
            "without include_op_for_full_load leaves open whether CDC files have an operation: DMS's guide is "
            "contradictory. Check a CDC file, and set op_in_cdc to true or false",
        )
    if not has_operation_in_cdc(dms) and not dms.cdc_inserts_only:
        if not dms.cdc_inserts_and_updates:
            yield (
                ("op_in_cdc",),
                "must not be false: without an operation, a delete cannot be distinguished from an insert",
            )
        elif not KEYED_MODES.issuperset((table.mode, *table.also)):
            yield (
                ("op_in_cdc", "cdc_inserts_and_updates"),
                "must not be false for a log: an update could not be distinguished from an insert",
            )


def _full_row(table: TableConfig, dms: DmsSettings) -> Iterator[Conflict]:
    """An update finds its row by the values of all columns before the update."""
    if table.mode is not Mode.FULL_ROW or "updated" in table.never:
        return
    if dms.before_image_prefix is None or (dms.before_image_columns != "all" and not dms.add_column_name):
        yield (
            ("before_image_prefix", "before_image_columns"),
            "must give before images of all columns for a table of mode full_row, because otherwise it is "
            "unknown which row an update changed: add a before-image rule with column-filter all to the task's "
            "mapping, or say never: [updated] for the table",
        )


def _lobs(dms: DmsSettings) -> Iterator[Conflict]:
    if dms.lob_mode == "full":
        yield (
            ("lob_mode",),
            "must not be full: DMS does not support full LOB mode with an S3 target; use limited LOB mode with a "
            "LobMaxSize above the longest value",
        )
    if dms.lob_mode != "limited":
        return
    if dms.longest_lob is None:
        yield (
            ("lob_mode", "longest_lob"),
            f"is limited, which cuts values after {dms.lob_max_size} KB without an error: measure the longest LOB at "
            "the source and set longest_lob in KB (0 where no column is a LOB)",
        )
    elif dms.longest_lob > dms.lob_max_size:
        yield (
            ("lob_max_size", "longest_lob", "lob_mode"),
            f"cuts values after {dms.lob_max_size} KB, and the longest has {dms.longest_lob} KB: raise LobMaxSize in "
            "the task's settings and load the table again",
        )


def _validation(dms: DmsSettings) -> Iterator[Conflict]:
    needs = {
        "data_format": (dms.data_format == "parquet", "data_format: parquet"),
        "timestamp_column_name": (dms.timestamp_column_name is not None, "timestamp_column_name"),
        "date_partition_enabled": (dms.date_partition_enabled, "date_partition_enabled: true"),
    }
    missing = {setting: text for setting, (met, text) in needs.items() if not met}
    if dms.validation_enabled and missing:
        yield (
            ("validation_enabled", *missing),
            f"needs {', '.join(missing.values())}: DMS validates an S3 target by queries on daily Parquet folders",
        )


def _order(dms: DmsSettings) -> Iterator[Conflict]:
    """The order of two changes of a key must be certain: by the change sequence, else the commit time, else the time in
    the file's name."""
    if dms.change_sequence_column is not None:
        return
    cure = "have the task add AR_H_CHANGE_SEQ and name it in change_sequence_column"
    if dms.timestamp_column_name is not None:
        if goes_back(dms.timestamp_zone, _SINCE):
            yield (
                ("timestamp_zone", "change_sequence_column"),
                f"{dms.timestamp_zone} has an hour twice when clocks go back, so that commit times do not show the "
                f"order of changes: {cure}",
            )
        return
    zone = dms.date_partition_timezone
    if dms.date_partition_enabled and zone is not None and goes_back(zone, _SINCE):
        yield (
            ("date_partition_timezone", "change_sequence_column", "timestamp_column_name"),
            f"{zone} has an hour twice when clocks go back, so that file names do not show the order of changes: "
            f"{cure}, or set TimestampColumnName on the endpoint",
        )
    if dms.date_partition_enabled and dms.date_partition_sequence in ("mmyyyydd", "ddmmyyyy"):
        yield (
            ("date_partition_sequence", "change_sequence_column", "timestamp_column_name"),
            f"{dms.date_partition_sequence} does not sort by date, so that files which were written at one time into "
            f"two folders have no order: {cure}, or set TimestampColumnName on the endpoint",
        )


def has_operation_in_cdc(dms: DmsSettings) -> bool:
    """Whether CDC files have the operation column, by the settings."""
    if dms.op_in_cdc is not None:
        return dms.op_in_cdc
    return dms.include_op_for_full_load or not dms.cdc_inserts_only


def stream_mistakes(stream: StreamConfig | None, dms: DmsSettings, *, has_keys: bool) -> Iterator[Mistake]:
    """The endpoint settings that a source cannot have. `has_keys`: whether a table finds its rows by a key."""
    # Also of a configuration that was written with all of its settings.
    defaults = DmsSettings()
    given = {name for name in DmsSettings.model_fields if getattr(dms, name) != getattr(defaults, name)}
    if stream is None:
        for name in sorted(given & STREAM_SETTINGS):
            yield ("dms", name), "is a setting of an endpoint for Kinesis or Kafka: remove it, or add stream"
        return
    for name in sorted(given - STREAM_SETTINGS - _OF_BOTH):
        yield ("dms", name), "is a setting of an endpoint for S3, and the source has a stream: remove it"
    if dms.change_sequence_column is None:
        if stream.engine in ("oracle", "sqlserver"):
            yield (
                ("dms", "change_sequence_column"),
                f"is missing: changes of {stream.engine} have no other order. Have the task's mapping add a column "
                "with the expression $AR_H_CHANGE_SEQ, and name it here",
            )
        elif not dms.include_transaction_details:
            yield (
                ("dms", "include_transaction_details"),
                "must be true: without it, the order of the changes is unknown",
            )
    if not dms.include_null_and_empty and stream.absent is None:
        yield (
            ("dms", "include_null_and_empty"),
            "must be true: without it, NULL and an empty text are both left out. If the source has no empty texts, set "
            "stream.absent to null instead",
        )
    if has_keys and not dms.before_image_settings.enable_before_image:
        yield (
            ("dms", "before_image_settings"),
            "must enable the before image: without it, a row whose key changes stays under its former key",
        )
