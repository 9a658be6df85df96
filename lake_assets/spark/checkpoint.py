"""Computing a DataFrame once, and what was observed of it on the way, wherever Spark is.

Here: what Spark Connect's client (4.1) does otherwise than Spark in this process. Not here: what is observed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql.utils import is_remote

from lake_assets.errors import SparkLost


class Observed:
    """An observation with a name that is known."""

    def __init__(self) -> None:
        self.name = f"observed_{uuid4().hex}"
        self.observation = Observation(self.name)

    def on(self, frame: DataFrame, *figures: Column) -> DataFrame:
        """The same rows, of which the figures are observed while they are computed."""
        if is_remote():
            # The client would ask the server, with the whole plan, whether it streams: a round trip each time.
            frame.__dict__["isStreaming"] = False
        return frame.observe(self.observation, *figures)

    @property
    def get(self) -> dict[str, Any]:
        """The figures by name. Blocks until the rows have been computed. Raises SparkLost when the server was too busy
        to tell within the 100 ms that it takes for it: the rows are to be computed again."""
        found: dict[str, Any] = self.observation.get
        if not found:
            raise SparkLost("what Spark has seen of the rows that it computed has not arrived.")
        return found


def checkpointed(frame: DataFrame, observed: Iterable[Observed] = ()) -> DataFrame:
    """The rows of the frame, computed now, from whose plan nothing is left. Fills the observations in its plan."""
    if not is_remote():
        return frame.localCheckpoint()
    with _active(frame.sparkSession):
        done = frame.localCheckpoint()
    # What was observed reaches the observations of reads and writes, not those of a checkpoint.
    known = {each.name: each.observation for each in observed}
    for name, values in frame.executionInfo.flows if frame.executionInfo is not None else ():
        if name in known:
            known[name].get.update(values)
    return done


def shallow(frame: DataFrame, view: str) -> DataFrame:
    """The same rows, still to be computed, by the name of a temporary view: a message of Spark Connect's client may be
    nested a hundred times, which is fifty steps of a plan. What is observed in it is told by a checkpoint alone."""
    if not is_remote():
        return frame
    frame.createOrReplaceTempView(view)
    return frame.sparkSession.table(view)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """The client looks for a checkpoint in the thread's active session, which of several is the first one made."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    threads = ConnectSession._active_session
    before = getattr(threads, "session", None)
    threads.session = session
    try:
        yield
    finally:
        threads.session = before
