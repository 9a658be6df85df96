"""The S3 endpoint that writes a source's files: its settings, the access to its bucket, and its replication task.

Not here: which settings may be combined (`dms_rules.py`), or their effect on a key (`bronze/files/keys.py`) or a file
(`bronze/files/formats.py`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, field_validator, model_validator

from lake_assets.config.aws.access import AwsAccess
from lake_assets.config.base import Mistakes, Model, matching

Operation = Literal["I", "U", "D"]
_TASK_ARN = r"arn:[\w-]+:dms:[\w-]+:\d*:task:[\w-]+"


class S3Config(AwsAccess):
    """The access to `s3://` locations."""

    path_style: bool = False


class DmsTask(AwsAccess):
    """The replication task that writes the files; its API reports the progress of the full load (`full_load_complete:
    dms`)."""

    arn: Annotated[
        str,
        matching(
            _TASK_ARN,
            "is not the ARN of a replication task, such as "
            "arn:aws:dms:eu-central-1:123456789012:task:ABCDEF; one of a serverless replication is not available",
        ),
    ]

    short_form: ClassVar[Mapping[str, Any] | None] = {"type": "string"}

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"arn": value} if isinstance(value, str) else value

    @property
    def effective_region(self) -> str:
        """The configured region, else the one in the ARN."""
        return self.region or self.arn.split(":")[3]


class BeforeImageSettings(Model):
    """What the endpoint of a stream adds to an update: the row as it was before."""

    enable_before_image: bool = False
    field_name: str = Field(default="before-image", min_length=1)
    column_filter: Literal["pk-only", "non-lob", "all"] = "pk-only"


STREAM_SETTINGS = frozenset(
    {
        "message_format",
        "include_transaction_details",
        "include_partition_value",
        "partition_include_schema_table",
        "include_table_alter_operations",
        "include_control_details",
        "include_null_and_empty",
        "no_hex_prefix",
        "use_large_integer_value",
        "before_image_settings",
    }
)
"""The settings of endpoints for Kinesis and Kafka."""


class DmsSettings(Model):
    """The target endpoint's settings under their DMS names in snake case, with DMS's own defaults; and the task
    settings and table mappings that affect its files."""

    data_format: Literal["csv", "parquet"] = "csv"
    """The format that the endpoint writes now. How a file is read depends on its own name."""
    compression_type: Literal["none", "gzip"] = "none"
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1)
    csv_row_delimiter: str = Field(default="\n", min_length=1)
    csv_null_value: str = "NULL"
    csv_no_sup_value: str | None = Field(default=None, min_length=1)
    """The marker of a column that the supplemental log lacks; None if UseCsvNoSupValue is off."""
    rfc_4180: bool = True
    add_column_name: bool = False
    include_op_for_full_load: bool = False
    op_in_cdc: bool | None = None
    """Whether CDC files have the operation column. Set it where DMS's own rules leave that open."""
    operation_column: str = Field(default="Op", min_length=1)
    operations: dict[str, Operation] = Field(default_factory=dict)
    """Other names of the operations I, U and D, such as INSERT: I."""
    cdc_inserts_only: bool = False
    cdc_inserts_and_updates: bool = False
    timestamp_column_name: str | None = Field(default=None, min_length=1)
    timestamp_zone: str = "UTC"
    use_task_start_time_for_full_load_timestamp: bool = False
    parquet_timestamp_in_millisecond: bool = False
    change_sequence_column: str | None = Field(default=None, min_length=1)
    added_columns: tuple[str, ...] = ()
    """Further columns that the task's mapping adds, in the file's order, read but not used. If the change sequence is
    not the first added column, list it here too."""
    before_image_prefix: str | None = Field(default=None, min_length=1)
    before_image_columns: Literal["pk_only", "all"] = "pk_only"
    """The column-filter of the before-image rule. Only used for files without a header."""
    preserve_transactions: bool = False
    cdc_path: str | None = None
    date_partition_enabled: bool = False
    date_partition_sequence: Literal["yyyymmdd", "yyyymmddhh", "yyyymm", "mmyyyydd", "ddmmyyyy"] = "yyyymmdd"
    date_partition_delimiter: Literal["slash", "dash", "underscore", "none"] = "slash"
    date_partition_timezone: str | None = None
    """The zone of date folders and of the times in CDC files' names; UTC if None."""
    validation_enabled: bool = False
    batch_apply_enabled: bool = False
    lob_mode: Literal["none", "limited", "full"] | None = None
    """How the task migrates LOB columns; None for a source that has none."""
    lob_max_size: int = Field(default=32, ge=1)
    """How many KB of a value limited LOB mode keeps. DMS cuts longer values, and reports that only in its log."""
    longest_lob: int | None = Field(default=None, ge=0)
    """KB of the longest LOB at the source, rounded up."""
    message_format: Literal["json", "json-unformatted"] = "json"
    include_transaction_details: bool = False
    include_partition_value: bool = False
    partition_include_schema_table: bool = False
    include_table_alter_operations: bool = False
    include_control_details: bool = False
    include_null_and_empty: bool = False
    no_hex_prefix: bool = False
    """Whether binary values have no `0x` in front."""
    use_large_integer_value: bool = False
    """Whether integers of more than 16 digits keep them all."""
    before_image_settings: BeforeImageSettings = BeforeImageSettings()

    @field_validator("date_partition_sequence", "date_partition_delimiter", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("csv_row_delimiter")
    @classmethod
    def _one_mark(cls, value: str) -> str:
        if value != "\r\n" and len(value) != 1:
            raise ValueError(f"{value!r} is neither one character nor \\r\\n")
        return value

    @field_validator("timestamp_zone", "date_partition_timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:  # OSError: "Europe" is a folder of the database
            raise ValueError(f"{value!r} is not an IANA time zone such as UTC or Europe/Berlin") from error
        return value

    @field_validator("cdc_path")
    @classmethod
    def _plain_path(cls, value: str | None) -> str | None:
        return (value.strip("/") or None) if value is not None else None

    @field_validator("operations")
    @classmethod
    def _known_meanings(cls, value: dict[str, Operation]) -> dict[str, Operation]:
        if wrong := [
            word for word, meaning in value.items() if word in ("I", "U", "D", "") and word != meaning
        ]:
            raise Mistakes([((word,), "is DMS's own name and keeps its meaning") for word in wrong])
        return value


LANDED = DmsSettings(
    add_column_name=True,
    include_op_for_full_load=True,
    operation_column="$dms.operation",
    timestamp_column_name="$dms.commit_timestamp",
    change_sequence_column="$dms.change_sequence",
    before_image_prefix="$dms.before.",
    csv_null_value="$dms.null",
    csv_no_sup_value="$dms.absent",
)
"""The settings of an S3 endpoint that would write the files that messages land in."""


def _validated(value: dict[str, Any]) -> dict[str, Any]:
    # pydantic reports an error of this validation at the key where it belongs.
    return DmsSettings.model_validate(value).model_dump(include=set(value))


OwnSettings = Annotated[dict[str, Any], AfterValidator(_validated)]
"""A subset of the settings. Each is valid by itself; whether they may be combined depends on the source's settings."""
