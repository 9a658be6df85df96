"""Where Spark runs and what it is started with, and the settings of Spark that lake.yaml may not change.

Not here: the settings that the engine adds (`spark/settings.py`), sessions (`spark/session.py`).
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from lake_assets.config.aws.access import AwsAccess, RoleArn
from lake_assets.config.aws.secret_references import has_reference
from lake_assets.config.base import Duration, Model, matching, refuse

SESSION_ZONE = "spark.sql.session.timeZone"
Setting = str | int | float | bool

EXACT: Mapping[str, str] = {
    # Timestamps are instants, and days are UTC days.
    SESSION_ZONE: "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.datetime.java8API.enabled": "false",
    "spark.sql.files.supportSecondOffsetFormat": "true",
    "spark.sql.timeType.enabled": "false",
    # A value that does not fit its type is an error, not NULL, a cut value or another type.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.mergeNestedTypeCoercion.enabled": "false",
    "spark.sql.enforceTypeCoercionBeforeUnionDeduplication.enabled": "true",
    "spark.sql.runCollationTypeCastsBeforeAliasAssignment.enabled": "true",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.variant.allowDuplicateKeys": "false",
    # The meaning of SQL: names, quotes, functions.
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.selfJoinAutoResolveAmbiguity": "true",
    "spark.sql.stableDerivedColumnAlias.enabled": "false",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.icu.caseMappings.enabled": "true",
    # Rows that a query reads, and that a statement replaces.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    "spark.sql.sources.validatePartitionColumns": "true",
    "spark.sql.execution.sortBeforeRepartition": "true",
    "spark.sql.optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled": "false",
    "spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled": "false",
    "spark.sql.optimizer.decorrelateSubqueryPreventConstantHoldingForCountBug.enabled": "true",
    # This rule would remove a stage without rows from the plan, and the stage's observations with it: a batch whose
    # rows are all unusable would have no figures.
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    ),
    # DMS writes no log of a streaming query beside its files. Spark would look for one at each file of a batch.
    "spark.sql.streaming.fileStreamSink.ignoreMetadata": "true",
    # The readers of CSV, JSON and Parquet.
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.csv.filterPushdown.enabled": "true",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.optimizer.enableCsvExpressionOptimization": "true",
    "spark.sql.optimizer.enableJsonExpressionOptimization": "true",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.json.filterPushdown.enabled": "true",
    "spark.sql.json.useUnsafeRow": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.jsonGenerator.writeNullIfWithDefaultValue": "true",
    "spark.sql.execution.datasources.hadoopLineRecordReader.enabled": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.respectSummaryFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.ignoreVariantAnnotation": "false",
    "spark.sql.parquet.reader.respectUnknownTypeAnnotation.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
    # Rows that Python gives to Spark, or takes from it.
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pandas.convertToArrowArraySafely": "true",
    "spark.sql.execution.pandas.inferPandasDictAsMap": "false",
    "spark.sql.execution.pandas.structHandlingMode": "legacy",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled": "false",
    # What Iceberg writes.
    "spark.sql.iceberg.check-nullability": "true",
    "spark.sql.iceberg.check-ordering": "true",
    "spark.sql.iceberg.merge-schema": "false",
    "spark.sql.iceberg.identifier-fields-rely": "false",
    # The former behaviour that changes what the engine's own expressions mean.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.codingErrorAction": "false",
    "spark.sql.legacy.javaCharsets": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.legacy.doLooseUpcast": "false",
    "spark.sql.legacy.negativeIndexInArrayInsert": "false",
    "spark.sql.legacy.lpadRpadAlwaysReturnString": "false",
    "spark.sql.legacy.disableMapKeyNormalization": "false",
    "spark.sql.legacy.truncateForEmptyRegexSplit": "false",
}
"""Settings of Spark and Iceberg that change values, types, names, or which rows there are, each with the value with
which the lake is exact: Spark's default, unless a comment gives the reason. Every session of the lake has them,
whatever its Spark was started with."""
EXACT_FAMILIES = (
    "spark.sql.legacy.",
    "spark.sql.pyspark.legacy.",
    "spark.sql.defaultColumn.",
    "spark.sql.execution.arrow.pyspark.fallback.",
    "spark.sql.execution.arrow.fallback.",
    "spark.sql.binaryOutputStyle",
    "spark.sql.iceberg.snapshot-property.",
    "spark.sql.optimizer.metadataOnly",
    "spark.sql.parser.escapedStringLiterals",
    "spark.files.ignore",
    "spark.wap.",
)
"""Beginnings of the names of further such settings, which lake.yaml may not have at all: Spark's former behaviour,
settings that a session cannot set, and properties that every commit would get."""


def conf_mistake(key: str, value: Setting) -> str | None:
    """Why a setting of Spark may not be in lake.yaml, as a sentence that begins with its name; None if it may."""
    needed = EXACT.get(key)
    if needed is not None and str(value).lower() == needed.lower():
        return None
    if key == SESSION_ZONE:
        return (
            f"{key} is {value}: the days of silver's partitions and of the marts are UTC days; remove it, and convert "
            "where a table is shown"
        )
    if needed is None and not key.startswith(EXACT_FAMILIES):
        return None
    if isinstance(value, bool):
        value = str(value).lower()
    advice = "remove it" if needed is None else f"remove it, or set it to {needed}"
    return f"{key} is {value}, which changes values, types, names or rows that the lake has proved: {advice}"


OF_SESSIONS = ("spark.sql.catalog.", "spark.hadoop.fs.")
"""Beginnings of the names of settings that may have keys. Each session of Spark Connect sets them by itself."""
ApplicationId = Annotated[
    str,
    matching(
        r"[0-9A-Za-z-]{2,64}", "is no id of an application or a cluster, such as 00fabcdefghijk0l or j-1ABC"
    ),
]


class SparkConfig(Model):
    mode: Literal["embedded", "connect", "emr", "emr_serverless"] = "embedded"
    """Where Spark runs: in each process (`embedded`), at the Spark Connect server of `remote` (`connect`), or at a
    session of Spark Connect that the lake starts on a cluster of Amazon EMR (`emr`) or in an application of EMR
    Serverless (`emr_serverless`)."""
    master: str = "local[*]"
    """The master of a Spark that this machine starts: in the process, or as a Spark Connect server. A process that
    `spark-submit` has started has the master that was given there."""
    remote: str = "sc://localhost:15002"
    """The address of a Spark Connect server, with `mode: connect`."""
    application: ApplicationId | None = None
    """The id of EMR's cluster, or of EMR Serverless's application."""
    role: RoleArn | None = None
    """The role with which EMR's session reads and writes the lake; EMR Serverless needs one."""
    idle: Duration = timedelta(minutes=15)
    """After how long without work EMR ends the session; the next batch starts another one."""
    aws: AwsAccess = Field(default_factory=AwsAccess)
    """How EMR itself is reached."""
    jars: Literal["fetched", "provided"] = "fetched"
    """Whether Spark fetches the lake's jars from Maven Central when it starts, or they are among its own, as in a
    container image or on Amazon EMR. Those of `spark.jars.packages` in `conf` are always fetched."""
    conf: dict[str, Setting] = Field(default_factory=dict)
    """Settings of Spark. Those that change values, types, names or rows are refused."""

    @property
    def is_remote(self) -> bool:
        """Whether Spark runs elsewhere, and is reached by Spark Connect."""
        return self.mode != "embedded"

    @property
    def address(self) -> str:
        """Where Spark is, for messages: without the parameters of `remote`, because a token may be among them."""
        if self.application is not None:
            return f"{'EMR Serverless' if self.mode == 'emr_serverless' else 'EMR'} {self.application}"
        return self.remote.partition(";")[0].rstrip("/")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # A bucket's access key may be among the settings: show their names, and hide their values.
        hidden = {"remote": self.address, "conf": dict.fromkeys(self.conf, SecretStr("hidden"))}
        for key, value in super().__repr_args__():
            yield key, hidden.get(key or "", value)

    @field_validator("remote")
    @classmethod
    def _an_address(cls, value: str) -> str:
        if not value.startswith("sc://"):
            raise ValueError("is not the address of a Spark Connect server, such as sc://localhost:15002")
        return value

    @model_validator(mode="after")
    def _of_emr(self) -> Self:
        if self.mode in ("emr", "emr_serverless"):
            needed = ("application", "role") if self.mode == "emr_serverless" else ("application",)
            lacking = [key for key in needed if getattr(self, key) is None]
            refuse(((key,), f"is needed with mode: {self.mode}") for key in lacking)
            shown = [key for key in self.conf if not key.startswith(OF_SESSIONS)]
            secret = [key for key in shown if has_reference(str(self.conf[key]))]
            text = "cannot be a secret with EMR, which shows it to whoever may describe the session"
            refuse((("conf", key), text) for key in secret)
        else:
            fields = type(self).model_fields
            keys = ("application", "role", "idle", "aws")
            # Not which keys were given: a dump of the model has all of them.
            given = [
                key
                for key in keys
                if getattr(self, key) != fields[key].get_default(call_default_factory=True)
            ]
            refuse(((key,), "is for mode: emr or emr_serverless") for key in given)
        return self

    @field_validator("conf")
    @classmethod
    def _exact(cls, value: dict[str, Setting]) -> dict[str, Setting]:
        found = ((key, conf_mistake(key, setting)) for key, setting in value.items())
        if mistakes := [text for _, text in found if text]:
            raise ValueError("; ".join(mistakes))
        return value
