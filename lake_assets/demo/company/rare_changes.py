"""Rare changes that break most pipelines: key updates, deletes, late corrections, and so on.

Here: how often each happens. Not here: what each does (`membership.py`, `workshop.py`, `corrections.py`).
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from lake_assets.demo.company import corrections, membership, workshop
from lake_assets.demo.company.city import City

Operation = Callable[[City, datetime], bool]


class RareChange(NamedTuple):
    """How often an operation happens per 100,000 changes, and how often at least in any history, however short."""

    operation: Operation
    per_100_000: float
    at_least: int


RARE_CHANGES = (
    RareChange(membership.register, 250, 4),
    RareChange(membership.edit, 350, 25),
    RareChange(membership.fumble_registration, 20, 3),
    RareChange(membership.renumber, 40, 3),
    RareChange(membership.renumber_in_a_chain, 20, 4),
    RareChange(membership.renumber_there_and_back, 10, 2),
    RareChange(membership.erase, 60, 5),
    RareChange(membership.restore, 15, 2),
    RareChange(workshop.open_ticket, 350, 10),
    RareChange(workshop.close_ticket, 340, 8),
    RareChange(workshop.renumber_ticket, 30, 4),
    RareChange(workshop.delete_ticket, 25, 3),
    RareChange(workshop.buy_bike, 15, 3),
    RareChange(workshop.reregister_bike, 20, 4),
    RareChange(workshop.scrap_bike, 12, 3),
    RareChange(corrections.correct_fares, 12, 3),
    RareChange(corrections.correct_end, 10, 3),
    RareChange(corrections.void_trip, 80, 4),
    RareChange(corrections.close_or_open_station, 20, 4),
    RareChange(corrections.add_docks, 10, 2),
)

DURING_THE_FULL_LOAD: tuple[Operation, ...] = (
    membership.register,
    membership.edit,
    membership.renumber,
    membership.renumber_in_a_chain,
    membership.fumble_registration,
    membership.erase,
    workshop.open_ticket,
    workshop.renumber_ticket,
    workshop.delete_ticket,
    workshop.reregister_bike,
    workshop.scrap_bike,
    workshop.buy_bike,
    corrections.void_trip,
    corrections.add_docks,
)
"""Each of these happens once while the full load runs, whatever the hour, so that DMS has changes to cache."""
