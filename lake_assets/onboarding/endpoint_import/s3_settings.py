"""Translates an S3 target's settings to lake.yaml.

Here: S3Settings of the API, and the same settings as extra connection attributes. Not here: the task's settings
(`task_settings.py`, `table_mappings.py`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lake_assets.errors import DocumentError
from lake_assets.onboarding.endpoint_import.documents import Endpoint

_SWITCHES = ("UseCsvNoSupValue", "AddTrailingPaddingCharacter")
_OTHER = ("BucketName", "BucketFolder", "CsvNoSupValue", *_SWITCHES)
_WITHOUT_EFFECT = (
    "ServiceAccessRoleArn", "ExternalTableDefinition", "EncryptionMode", "ServerSideEncryptionKmsKeyId", "EncodingType",
    "DictPageSizeLimit", "RowGroupLength", "DataPageSize", "ParquetVersion", "EnableStatistics", "CannedAclForObjects",
    "CdcMaxBatchInterval", "CdcMinFileSize", "MaxFileSize", "IgnoreHeaderRows", "ExpectedBucketOwner",
    "GlueCatalogGeneration",
)  # fmt: skip
"""Settings that do not affect the content of the files, or are for S3 as a source."""
T = TypeVar("T")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r"}


def location(endpoint: Endpoint) -> str:
    """`s3://bucket/folder`, below which are the schemas. Raises DocumentError for an endpoint without a bucket."""
    settings, _ = _merged(endpoint)
    if not (bucket := settings.get("BucketName")):
        raise DocumentError(f"the endpoint {endpoint.name} names no bucket: its S3Settings need BucketName.")
    folder = str(settings.get("BucketFolder") or "").strip("/")
    return f"s3://{bucket}/{folder}" if folder else f"s3://{bucket}"


def batch_interval(endpoint: Endpoint) -> int:
    """CdcMaxBatchInterval in seconds, by default DMS's. Raises DocumentError."""
    given = _merged(endpoint)[0].get("CdcMaxBatchInterval", 60)
    return converted(endpoint, "CdcMaxBatchInterval", given, _seconds)


def endpoint_settings(endpoint: Endpoint) -> tuple[dict[str, Any], list[str]]:
    """The settings of `dms:` by their names in lake.yaml, and notes about undecided ones. Raises DocumentError for an
    invalid value."""
    settings, notes = _merged(endpoint)
    found: dict[str, Any] = {}
    for name, convert in MEANINGS.items():
        if settings.get(name) is None:
            continue
        value = converted(endpoint, name, settings[name], convert)
        if value is not None:
            found[our_name(name)] = value
    is_on = {name: converted(endpoint, name, settings.get(name) or False, flag) for name in _SWITCHES}
    if is_on["UseCsvNoSupValue"]:
        if (marker := settings.get("CsvNoSupValue")) is not None:
            found["csv_no_sup_value"] = str(marker)
        else:
            notes.append(
                "UseCsvNoSupValue is on without CsvNoSupValue: set csv_no_sup_value to what a file has"
            )
    if is_on["AddTrailingPaddingCharacter"]:
        notes.append(
            "AddTrailingPaddingCharacter is on: strings come with the padding of their source columns"
        )
    if "csv_null_value" not in found and found.get("data_format", "csv") == "csv":
        notes.append(
            "CsvNullValue is not set: the DMS guide documents NULL, but files with empty fields exist; check a file, "
            'and set csv_null_value: "" if NULL is empty there'
        )
    if "timestamp_column_name" in found:
        notes.append(
            "an endpoint does not state the zone of its commit times: set timestamp_zone unless it is UTC"
        )
    return found, notes


def converted(endpoint: Endpoint, name: str, value: Any, convert: Callable[[Any], T]) -> T:
    """The value of a setting. Raises DocumentError for an invalid one, with what `convert` says of it."""
    try:
        return convert(value)
    except ValueError as error:
        raise DocumentError(f"the endpoint {endpoint.name}: {name} is {error}.") from error


def _merged(endpoint: Endpoint) -> tuple[dict[str, Any], list[str]]:
    """S3Settings and the extra connection attributes, under the API's names."""
    notes: list[str] = []
    merged: dict[str, Any] = {}
    for where, given in (
        ("S3Settings", endpoint.settings),
        ("ExtraConnectionAttributes", _attributes(endpoint.extra)),
    ):
        for name, value in given.items():
            known = _KNOWN.get(name.lower())
            if known is None:
                notes.append(
                    f"{name} of {where} is not known to lake_assets: check whether it changes the files"
                )
            elif known in merged and str(merged[known]).lower() != str(value).lower():
                notes.append(
                    f"S3Settings and ExtraConnectionAttributes disagree about {known}; this is the value of "
                    "S3Settings: check a file"
                )
            else:
                merged.setdefault(known, value)
    return merged, notes


def _attributes(text: str) -> dict[str, str]:
    """`key=value;key=value`; a delimiter may itself be a semicolon, as in `csvDelimiter=;;`."""
    found: dict[str, str] = {}
    last = ""
    for part in text.split(";"):
        name, separator, value = part.partition("=")
        if separator:
            last = name.strip()
            found[last] = value if value.isspace() else value.strip()
        elif last and found[last] == "" and "delimiter" in last.lower():
            found[last] = ";"
    return {name: value for name, value in found.items() if name}


def flag(value: Any) -> bool:
    """A switch. Raises ValueError for another word."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in ("true", "false", "y", "n", "yes", "no", "1", "0"):
        raise ValueError(f"{value!r}, expected true or false")
    return word in ("true", "y", "yes", "1")


def _seconds(value: Any) -> int:
    if not str(value).strip().isdecimal():
        raise ValueError(f"{value!r}, expected a number of seconds")
    return int(value)


def _unescaped(value: Any) -> str:
    text = str(value)
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text


def _word(value: Any) -> str | None:
    return str(value).lower() or None


def _name(value: Any) -> str | None:
    return str(value) or None


def our_name(name: str) -> str:
    """A setting's name in lake.yaml: `AddColumnName` as `add_column_name`, `Rfc4180` as `rfc_4180`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", name).lower()


MEANINGS: Mapping[str, Callable[[Any], Any]] = {
    "AddColumnName": flag,
    "Rfc4180": flag,
    "IncludeOpForFullLoad": flag,
    "CdcInsertsOnly": flag,
    "CdcInsertsAndUpdates": flag,
    "PreserveTransactions": flag,
    "DatePartitionEnabled": flag,
    "ParquetTimestampInMillisecond": flag,
    "UseTaskStartTimeForFullLoadTimestamp": flag,
    "DataFormat": _word,
    "CompressionType": _word,
    "DatePartitionSequence": _word,
    "DatePartitionDelimiter": _word,
    "TimestampColumnName": _name,
    "CdcPath": _name,
    "DatePartitionTimezone": _name,
    "CsvNullValue": str,
    "CsvDelimiter": _unescaped,
    "CsvRowDelimiter": _unescaped,
}
"""The functions that convert values, by setting. Each setting has the same name in lake.yaml, in snake case."""
_KNOWN = {name.lower(): name for name in (*MEANINGS, *_OTHER, *_WITHOUT_EFFECT)}
