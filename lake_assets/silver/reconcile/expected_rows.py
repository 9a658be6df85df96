"""The rows that a table's files give for some of its keys: computed again, as a rebuild does, without writing.

Here: the changes of those keys, and their states. Not here: the rule of a key's state (`silver/changes/collapse.py`),
comparing (`differences.py`). DataFrame API only.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import collapse, events
from lake_assets.silver.changes.key_states import counted
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.current.late_batch import settled_in_load

Within = Callable[[Sequence[Column]], Column]
"""Whether a key, by its columns, is one of those that are compared."""


def events_within(target: Target, reading: Reading, within: Within) -> DataFrame:
    """The events of those keys. The changes are filtered before they become events, because events are sorted by
    key."""
    image, changes = F.col("_image"), reading.good
    wanted = within([image[name] for name in target.key])
    if target.before_images:
        before = F.col("_before")
        wanted = wanted | within([F.coalesce(before[name], image[name]) for name in target.key])
    found = events(changes.filter(wanted), target.key, before_images=target.before_images)
    return found.filter(within(held_key(target)))


def held_key(target: Target) -> list[Column]:
    """The key of an event or a state, by its columns."""
    return [F.col(name) for name in key_columns(target.key)]


def states_within(reader: BatchReader, reading: Reading, within: Within) -> DataFrame:
    """The states of those keys, computed: `_key_0`…, `_tombstone`, `_image`. Raises RowCountMismatch when a file lacks
    rows, and TableStopped as `settled`."""
    target = reader.context.target
    states = collapse(events_within(target, reading, within), target.key)
    delta, counts = counted(target, states, reading)
    reading.figures()
    if counts.doubtful:
        # Also follows rows from and to keys that are not compared.
        delta = settled_in_load(reader, delta, counts)[0].filter(within(held_key(target)))
    return delta.select(*key_columns(target.key), "_tombstone", "_image")
