"""Turns of a bench whose process may die at random. Not here: deaths at named points (`faults.py`)."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.apply import apply_batch as apply
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.processes.faults import Killed

PLACES = [(apply, "write_final_commit"), (apply, "proven"), (Attempt, "publish")]
"""Of a turn: objects and the names of their functions."""


def turn_with_a_death(bench: Bench, random: Random) -> None:
    """Sometimes runs a turn in which the process must die; the next turn continues from its remains."""
    with pytest.MonkeyPatch.context() as patched:
        if dying(random, patched):
            with pytest.raises(Killed):
                bench.turn()


def turn_with_a_chance_of_death(bench: Bench, random: Random) -> None:
    """Sometimes runs a turn in which the process dies if it reaches the place; another process continues."""
    with pytest.MonkeyPatch.context() as patched:
        if dying(random, patched):
            try:
                bench.turn()
            except Killed:
                bench.lake = bench.reopened()


def dying(random: Random, patched: pytest.MonkeyPatch, places: Sequence[tuple[Any, str]] = PLACES) -> bool:
    """Sometimes lets the process die at one of the places; returns whether it will."""
    if random.random() > 0.3:
        return False
    victim, name = random.choice(places)
    whole = getattr(victim, name)

    def dies(*anything: Any, **named: Any) -> Any:
        if name == "publish" and random.random() < 0.5:
            whole(*anything, **named)
        raise Killed

    patched.setattr(Attempt, "drop", lambda self: None)
    patched.setattr(victim, name, dies)
    return True
