"""The S3 endpoint that writes a source's files: its settings, and how its bucket is reached.

Not here: what the settings mean for a key (`bronze/keys.py`) or a file (`bronze/formats.py`).
"""

from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, field_validator, model_validator

from lake_assets.config.base import Model


class S3Config(Model):
    """How `s3://` locations are reached; without it the AWS default chain decides."""

    region: str | None = None
    endpoint: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    path_style: bool = False

    @model_validator(mode="after")
    def _both_keys(self) -> "S3Config":
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError(
                "access_key_id and secret_access_key go together; without both the AWS default chain decides"
            )
        return self


class DmsSettings(Model):
    """The S3 target endpoint's settings under their DMS names in snake case, with DMS's own defaults."""

    data_format: Literal["csv", "parquet"] = "csv"
    compression_type: Literal["none", "gzip"] = "none"
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1)
    csv_null_value: str = "NULL"
    rfc_4180: bool = True
    add_column_name: bool = False
    include_op_for_full_load: bool = False
    timestamp_column_name: str | None = Field(default=None, min_length=1)
    timestamp_zone: str = "UTC"
    change_sequence_column: str | None = Field(default=None, min_length=1)
    before_image_prefix: str | None = Field(default=None, min_length=1)
    preserve_transactions: bool = False
    cdc_path: str | None = None
    date_partition_enabled: bool = False
    date_partition_sequence: Literal["yyyymmdd", "yyyymmddhh", "yyyymm", "mmyyyydd", "ddmmyyyy"] = "yyyymmdd"
    date_partition_delimiter: Literal["slash", "dash", "underscore", "none"] = "slash"

    @field_validator("date_partition_sequence", "date_partition_delimiter", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("timestamp_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:  # OSError: "Europe" is a folder of the database
            raise ValueError(f"{value!r} is not an IANA time zone such as UTC or Europe/Berlin") from error
        return value
