"""Computing a DataFrame once, with the metrics observed meanwhile, embedded or over Spark Connect.

Here: the differences between Spark Connect's client (4.1) and Spark in this process. Not here: which metrics.
"""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql.utils import is_remote

from lake_assets.errors import SparkLost
from lake_assets.spark.internals.pyspark_private import active, note_no_stream


class Observed:
    """An observation with a known name."""

    def __init__(self) -> None:
        self.name = f"observed_{uuid4().hex}"
        self.observation = Observation(self.name)

    def on(self, frame: DataFrame, *figures: Column) -> DataFrame:
        """The same rows; Spark observes the figures while it computes them."""
        if is_remote():
            note_no_stream(frame)
        return frame.observe(self.observation, *figures)

    @property
    def get(self) -> dict[str, Any]:
        """The figures by name. Blocks until the rows have been computed. Raises SparkLost when a busy server did not
        send them within its limit of 100 ms: the caller must compute the rows again."""
        found: dict[str, Any] = self.observation.get
        if not found:
            raise SparkLost("Spark's count of the rows that it computed has not arrived.")
        return found


ON_DISK = StorageLevel.DISK_ONLY
"""Where checkpoints are. If a task reads a checkpoint back into memory, it holds what does not fit until it ends, and
has no memory left for sorting. Serialized rows are also written and read faster than objects."""


def checkpointed(frame: DataFrame, observed: Iterable[Observed] = ()) -> DataFrame:
    """The rows of the frame, computed now; the result's plan is empty. Fills the observations in the frame's plan."""
    if not is_remote():
        return frame.localCheckpoint(storageLevel=ON_DISK)
    with active(frame.sparkSession):
        done = frame.localCheckpoint(storageLevel=ON_DISK)
    # The client fills the observations of reads and writes, not those of a checkpoint.
    known = {each.name: each.observation for each in observed}
    for name, values in frame.executionInfo.flows if frame.executionInfo is not None else ():
        if name in known:
            known[name].get.update(values)
    return done


def shallow(frame: DataFrame, view: str) -> DataFrame:
    """The same rows, not computed yet, as a temporary view: Spark Connect's client may nest a message a hundred times,
    which is fifty steps of a plan. Only a checkpoint reports what is observed in the view, and only if something is
    observed outside of it, too."""
    if not is_remote():
        return frame
    frame.createOrReplaceTempView(view)
    return frame.sparkSession.table(view)
