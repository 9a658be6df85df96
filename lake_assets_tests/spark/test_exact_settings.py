"""Every setting of Spark and Iceberg is known: those that change values, types, names or rows, and the others.

Here: the registries of the installed Spark and Iceberg. Not here: what a lake on a Spark with other settings stores
(`silver/test_stored_types.py`).
"""

import re
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.java_gateway import launch_gateway

from lake_assets.config.spark import EXACT, EXACT_FAMILIES, SparkConfig, conf_mistake

REGISTRIES = (
    "org.apache.spark.internal.config.package",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.sql.internal.StaticSQLConf",
    "org.apache.spark.sql.connect.config.Connect",
)
"""Scala objects that register their settings when they are loaded."""
ENGINES_OWN = {
    "spark.sql.session.timeZone",
    "spark.sql.adaptive.optimizer.excludedRules",
    "spark.sql.streaming.fileStreamSink.ignoreMetadata",
}
"""Settings in which the lake differs from Spark's default."""
FREE = (
    # How a query is planned and executed, and what is shown or logged of it.
    r"adaptive\.|analyzer\.|autoBroadcast|broadcast|bucketing\.|cartesianProductExec\.|cbo\.|codegen\.|columnVector\.",
    r"alwaysInlineCommonExpr|useCommonExprIdForAlias|constraintPropagation|exchange\.reuse|join\.|limit\.|sort\.",
    r"optimizer\.|optimizeNullAwareAntiJoin|orderingAwareLimitOffset|unionOutputPartitioning|lazySetOperatorOutput",
    r"sessionWindow\.|sortMergeJoinExec\.|windowExec\.|shuffle|shuffledHashJoinFactor|subexpressionElimination\.",
    r"subquery\.|statistics\.|objectHashAggregate\.|inMemory|leafNodeDefaultParallelism|maxSinglePartitionBytes",
    r"requireAllClusterKeys|maxBroadcastTableSize|defaultSizeInBytes|resultQueryStage\.|planner\.|cache\.serializer",
    r"classic\.|connect\.|defaultCacheStorageLevel|prioritizeOrdinalResolutionInSort|cteRe|pivotMaxValues",
    r"addPartitionInBatch|allowNamedFunctionArguments|crossJoin|dataSource\.|datasource|event\.|transposeMaxValues",
    r"debug|dataFrameQueryContext|dataframeCache|expressionTreeChangeLog|extendedExplain|planChange|lightweightPlan",
    r"maxMetadataStringLength|maxPlanStringLength|nameResolutionLog|redaction\.|repl\.|stackTraces|ui\.|error\.",
    r"queryExecutionListeners|parser\.(eager|manage|parserDfa)|maxConcurrentOutputFileWriters|mapZipWith",
    # Files: how they are split, listed and compressed. Where Spark stores what it writes, which no table is.
    r"files\.(max|min|openCost)|filesourceTableRelationCacheSize|metadataCacheTTLSeconds|warehouse\.dir",
    r"sources\.(binaryFile|bucketing|commitProtocol|default|disabledJdbc|fileCompression|ignoreDataLocality)",
    r"sources\.(outputCommitter|parallelPartition|schemaString|useListFiles|useV1SourceList|v2\.bucketing)",
    r"parquet\.(aggregatePushdown|columnarReaderBatchSize|compression|enable|fieldId\.write|filterPushdown|output)",
    r"parquet\.(pushdown|recordLevelFilter|variant\.|writeLegacyFormat)|csv\.parser\.inputBufferSize|orc\.|avro\.",
    # Parts of Spark that the engine does not use: it declares every type, and names every table with its catalog.
    r"artifact\.|catalog\.|catalogImplementation|cli\.|defaultCatalog|defaultUrlStream|extensions|geospatial",
    r"globalTempDatabase|hive\.|maven\.|pipelines\.|streaming\.|thrift[sS]erver\.|timeTravel|truncateTable",
    r"tvf\.|udt\.|view\.|scripting\.|scriptTransformation\.|operatorPipeSyntaxEnabled|runSQLOnFiles|variable\.",
    r"variant\.(allowReading|force|infer|push|shredding|write)|pyspark\.(jvm|plotting|udf|worker)|python\.",
    r"allowCollationsInMapKeys|assumeAnsiFalseIfNotPersisted|session\.localRelation",
    # The engine's own sessions set it; authors of marts choose it for theirs.
    r"caseSensitive",
    # Spark's processes of Python, which run no code of the engine, and rows in Arrow's form.
    r"execution\.arrow\.(compression|enabled|localRelation|max|pyspark\.(enabled|selfDestruct|validateSchema))",
    r"execution\.arrow\.(sparkr|transformWithState)|execution\.(pandas\.udf|pyspark\.(python|udf)|python\.udf)",
    r"execution\.python(UDF\.arrow|UDTF)|execution\.(broadcastHashJoin|fastFail|interruptOnCancel|rangeExchange)",
    r"execution\.(removeRedundant|replaceHash|reuseSubquery|topKSort|useObjectHash|usePartitionEvaluator)",
    # Iceberg: how it reads, plans and compresses.
    r"iceberg\.(vectorization|planning|aggregate-push-down|distribution-mode|compression|data-planning|delete-planning)",
    r"iceberg\.(advisory|locality|executor-cache|report-column-stats|read\.|async|shred|variant|view\.)",
)
"""What may follow `spark.sql.` in the names of settings that change no value, type, name or row of the lake."""


@pytest.fixture(scope="module")
def registry() -> dict[str, str]:
    """By name, the default of each setting that Spark has registered."""
    gateway = launch_gateway()
    try:
        jvm: Any = gateway.jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for name in REGISTRIES:
            jvm.java.lang.Class.forName(f"{name}$", True, loader)
        entries = getattr(getattr(jvm.org.apache.spark.internal.config, "ConfigEntry$"), "MODULE$")
        lines = [f"{entry.key()}={entry.defaultValueString()}" for entry in entries.knownConfigs().values()]
    finally:
        gateway.shutdown()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.spark
def test_each_setting_is_exact_or_free(registry: dict[str, str]) -> None:
    """A new Spark may add a setting that changes values: decide in which of the lists it belongs."""
    names = {name for name in registry if name.startswith("spark.sql.")}
    assert len(names) > 600
    free = re.compile(rf"spark\.sql\.(?:{'|'.join(FREE)}).*")
    exact = {name for name in names if name in EXACT or name.startswith(EXACT_FAMILIES)}
    assert sorted(name for name in names - exact if not free.fullmatch(name)) == []


@pytest.mark.spark
def test_the_exact_value_is_sparks_default(registry: dict[str, str]) -> None:
    known = {name: value for name, value in EXACT.items() if not name.startswith("spark.sql.iceberg.")}
    assert set(known) <= set(registry)
    differing = {name for name, value in known.items() if registry[name].lower() != value.lower()}
    assert differing == ENGINES_OWN


@pytest.mark.parametrize("name", EXACT)
def test_no_other_value_is_allowed(name: str) -> None:
    needed = EXACT[name]
    assert SparkConfig.model_validate({"conf": {name: needed}}).conf == {name: needed}
    if needed in ("true", "false"):
        assert conf_mistake(name, needed == "true") is None  # as YAML reads it
        assert conf_mistake(name, needed != "true") is not None
    with pytest.raises(ValidationError, match=f"{re.escape(name)} is other"):
        SparkConfig.model_validate({"conf": {name: "other"}})


@pytest.mark.parametrize("name", EXACT_FAMILIES)
def test_no_setting_of_a_family_is_allowed(name: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"{name}x is 1, which changes values")):
        SparkConfig.model_validate({"conf": {f"{name}x": 1}})


def test_every_mistake_is_reported() -> None:
    conf = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.ansi.enabled": False}
    with pytest.raises(ValidationError) as caught:
        SparkConfig.model_validate({"conf": conf})
    assert "set it to TIMESTAMP_LTZ" in str(caught.value)
    assert "spark.sql.ansi.enabled is false" in str(caught.value)
