"""Making one commit out of several statements: a branch per attempt, then one fast-forward.

Here: the branch's life and how a lost race is told. Not here: what is written to it.

The branch starts at the snapshot that the attempt was planned from, so that the fast-forward is refused if anything
was published meanwhile: two runs cannot both publish the same batch, whatever locks or queues said. A branch that is
shared, or that starts at whatever main is by then, doubles rows.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriterV2, SparkSession

from lake_assets.errors import ApplyConflict

BRANCH_PREFIX = "apply_"
RETAIN_DAYS = 1
"""A branch whose process was killed pins its snapshots until expiry drops it after this time."""

logger = logging.getLogger(__name__)


class Attempt:
    """One attempt to publish to one table. Write to `address`, then `publish()`."""

    def __init__(self, spark: SparkSession, catalog: str, identifier: str) -> None:
        self._spark = spark
        self._catalog = catalog
        self._identifier = identifier
        self.branch = f"{BRANCH_PREFIX}{uuid4().hex}"
        self.table = f"{catalog}.{identifier}"
        self.address = f"{self.table}.branch_{self.branch}"

    def start(self, snapshot_id: int | None) -> None:
        """Creates the branch at the snapshot that the attempt was planned from; None for a table without one.

        Raises ApplyConflict when a table planned as empty no longer is: a branch without a start begins wherever main
        is by then, and the fast-forward would be granted.
        """
        start = f"AS OF VERSION {snapshot_id} " if snapshot_id is not None else ""
        self._run(f"ALTER TABLE {self.table} CREATE BRANCH {self.branch} {start}RETAIN {RETAIN_DAYS} DAYS")
        if snapshot_id is None and self._run(f"SELECT name FROM {self.table}.refs WHERE name = 'main'"):
            self.drop()
            raise ApplyConflict(f"{self._identifier}: another run published first")

    def publish(self) -> int:
        """Moves main to the branch's head in one metadata commit; the snapshot id that main is at now.

        Raises ApplyConflict when main has moved since the attempt was planned.
        """
        try:
            row = self._run(
                f"CALL {self._catalog}.system.fast_forward('{self._identifier}', 'main', '{self.branch}')"
            )
        except PySparkException as error:
            if "ancestor" in str(error):
                raise ApplyConflict(f"{self._identifier}: another run published first") from error
            raise
        return int(row["updated_ref"])

    def drop(self) -> None:
        self._run(f"ALTER TABLE {self.table} DROP BRANCH IF EXISTS {self.branch}")

    def _run(self, statement: str) -> dict[str, Any]:
        row = self._spark.sql(statement).first()
        return row.asDict() if row is not None else {}


def with_properties(writer: DataFrameWriterV2, properties: Mapping[str, str]) -> DataFrameWriterV2:
    """The writer, whose commit carries the properties in its summary."""
    for name, value in properties.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    return writer


@contextlib.contextmanager
def attempt(spark: SparkSession, catalog: str, identifier: str, snapshot_id: int | None) -> Iterator[Attempt]:
    """A started attempt whose branch is gone afterwards, published or not."""
    current = Attempt(spark, catalog, identifier)
    current.start(snapshot_id)
    try:
        yield current
    finally:
        try:
            current.drop()
        except (PySparkException, Py4JError):
            # The rows are published or not, whatever becomes of the branch; expiry drops it (RETAIN_DAYS). Raising here
            # would hide from the caller that they are.
            logger.warning("%s: branch %s could not be dropped", identifier, current.branch, exc_info=True)
