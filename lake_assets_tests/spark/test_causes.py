"""What an error comes down to, in one line."""

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lake_assets.errors import LakeError
from lake_assets.spark.causes import MOST, full_traceback, root_cause, root_cause_in

TRACE = """An error occurred while calling o107.sql.
: org.apache.iceberg.exceptions.RuntimeIOException: Failed to create file: file:/lake/x.parquet
\tat org.apache.iceberg.hadoop.HadoopOutputFile.create(HadoopOutputFile.java:67)
\tSuppressed: java.lang.IllegalStateException: not this one
\t\tat a.B.c(B.java:1)
\tCaused by: java.lang.Error: nor this
\t\t... 5 more
\t... 60 more
Caused by: java.io.IOException: No space left
  on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 61 more
"""


class TracedError(Exception):
    """As Spark Connect's: the trace is not in the text."""

    def getStackTrace(self) -> str:
        return TRACE


@pytest.mark.parametrize("error", [Exception(TRACE), TracedError("(x.Y) Failed to create file")])
def test_the_last_cause_of_a_java_trace(error: Exception) -> None:
    assert root_cause(error) == "No space left on device (IOException)"
    assert "HadoopOutputFile.java:67" in full_traceback(error)


def test_the_innermost_error_that_another_was_raised_from() -> None:
    outer = RuntimeError("outside")
    outer.__cause__ = KeyError("inside")
    assert root_cause(outer) == "'inside' (KeyError)"
    assert "outside" in full_traceback(outer)


def test_an_error_of_the_lakes_own_is_said_as_it_is() -> None:
    inner, outer = LakeError("a: the reason.\nThe next step."), RuntimeError("outside")
    inner.__cause__, outer.__cause__ = KeyError("inside"), inner
    assert root_cause(inner) == root_cause(outer) == str(inner)


def test_a_cause_without_a_message_is_its_kind() -> None:
    assert root_cause_in(": x.y.Z$Lost\n\tat a.B.c(B.java:1)\n") == "Z$Lost"
    assert root_cause(ValueError()) == "ValueError"


def test_a_long_message_is_cut() -> None:
    assert len(root_cause(ValueError("x" * 10_000))) < MOST + 20


def test_text_without_a_trace_has_none() -> None:
    assert root_cause_in("a: b\nCaused by the weather: c") is None


@pytest.mark.spark
def test_what_spark_raises(spark: SparkSession) -> None:
    with pytest.raises((Py4JError, PySparkException)) as bad:
        spark.sql("SELECT raise_error('it is broken')").collect()
    assert "it is broken" in root_cause(bad.value)
    assert "An error occurred" not in root_cause(bad.value)
    assert "\n" not in root_cause(bad.value)
    with pytest.raises((Py4JError, PySparkException)) as missing:
        spark.read.parquet("/no/such/folder").collect()
    assert "/no/such/folder" in root_cause(missing.value)
