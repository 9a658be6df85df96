"""Simulated deaths: an exception ends the next turn at a named place.

Here: the places, and raising there. Not here: real processes that are killed.
"""

import contextlib
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.iceberg.publish import Attempt
from lake_assets.schema.contract_log import ContractLog
from lake_assets.silver.apply import apply_batch as apply
from lake_assets.silver.batch.quarantine import BatchQuarantine
from lake_assets_tests.helpers.processes.faults import Killed

PLACES: tuple[tuple[Any, str], ...] = (
    (FileLog, "append"),
    (ContractLog, "add"),
    (Attempt, "start"),
    (apply, "write_final_commit"),
    (apply, "proven"),
    (BatchQuarantine, "record"),
    (Attempt, "publish"),
    (Attempt, "publish"),
    (BatchQuarantine, "release"),
)


@contextlib.contextmanager
def deadly(random: Random, places: Sequence[tuple[Any, str]] = PLACES) -> Iterator[str]:
    """Raises at one of the places, before or after its call; yields its name."""
    owner, name = random.choice(places)
    after = random.random() < 0.5
    whole, drop = getattr(owner, name), Attempt.drop

    def dies(*anything: Any, **named: Any) -> Any:
        if after:
            whole(*anything, **named)
        raise Killed

    # A dead process does not clean up.
    setattr(Attempt, "drop", lambda self: None)  # noqa: B010  (mypy)
    setattr(owner, name, dies)
    try:
        yield f"{name}, {'after' if after else 'before'} it"
    finally:
        setattr(owner, name, whole)
        setattr(Attempt, "drop", drop)  # noqa: B010
