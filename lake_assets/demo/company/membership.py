"""The membership office: accounts are made, edited, renumbered, erased, restored.

Here: transactions on `members`. Not here: what members do in the city (`city.py`). Each operation returns whether it
found something to do.
"""

from datetime import datetime, timedelta
from itertools import pairwise

from lake_assets.demo.company import vocabulary
from lake_assets.demo.company.city import City
from lake_assets.demo.company.population import new_member
from lake_assets.demo.source.source_database import Transaction


def register(city: City, at: datetime) -> bool:
    """A new account, confirmed by an app event in the same transaction."""
    member_id = city.database.next_id("member")
    with city.database.transaction(at) as tx:
        tx.insert("members", new_member(city.rng, member_id, tx.at))
        city.app_event(tx, "sign_up", member_id)
    city.member_ids.append(member_id)
    return True


def fumble_registration(city: City, at: datetime) -> bool:
    """Insert, update, delete and insert again of one key in one transaction."""
    member_id = city.database.next_id("member")
    with city.database.transaction(at) as tx:
        tx.insert("members", new_member(city.rng, member_id, tx.at))
        tx.update("members", member_id, email=f"typo{member_id % 10**7}@example.org")
        tx.delete("members", member_id)
        tx.insert("members", new_member(city.rng, member_id, tx.at))
    city.member_ids.append(member_id)
    return True


def edit(city: City, at: datetime) -> bool:
    """One or two updates of one account in one transaction: NULL, empty and awkward texts come and go."""
    member_id = city.rng.choice(city.member_ids)
    with city.database.transaction(at) as tx:
        tx.update("members", member_id, note=vocabulary.note(city.rng), phone=vocabulary.phone(city.rng))
        if city.rng.random() < 0.4:
            tx.update("members", member_id, plan=city.rng.choice(vocabulary.PLANS))
    return True


def _renumber(city: City, tx: Transaction, old: int, new: int) -> None:
    tx.update("members", old, member_id=new)
    for trip_id in [number for number in sorted(city.open_trips) if city.trips[number]["member_id"] == old]:
        tx.update("trips", trip_id, member_id=new)
    city.member_ids[city.member_ids.index(old)] = new


def renumber(city: City, at: datetime) -> bool:
    """An account moves to a number never used; its running trips follow, ended ones keep the old number."""
    old, new = city.rng.choice(city.member_ids), city.database.next_id("member")
    with city.database.transaction(at) as tx:
        _renumber(city, tx, old, new)
        if city.rng.random() < 0.3:
            tx.update("members", new, note=f"was {old}")
    return True


def _renumber_step_by_step(city: City, at: datetime, *numbers: int) -> None:
    for old, new in pairwise(numbers):
        with city.database.transaction(at) as tx:
            _renumber(city, tx, old, new)
        at = tx.at + timedelta(milliseconds=city.rng.randrange(1, 400))


def renumber_in_a_chain(city: City, at: datetime) -> bool:
    """a to b, and b to c in the next transaction."""
    first = city.rng.choice(city.member_ids)
    _renumber_step_by_step(city, at, first, city.database.next_id("member"), city.database.next_id("member"))
    return True


def renumber_there_and_back(city: City, at: datetime) -> bool:
    """a to b, and back to a, which is free by then."""
    first = city.rng.choice(city.member_ids)
    _renumber_step_by_step(city, at, first, city.database.next_id("member"), first)
    return True


def erase(city: City, at: datetime) -> bool:
    """A member asks for erasure: the row is deleted; trips and events keep the member's number."""
    member_id = city.rng.choice(city.member_ids)
    riding = any(city.trips[number]["member_id"] == member_id for number in city.open_trips)
    if riding or len(city.member_ids) < 10:
        return False
    city.member_ids.remove(member_id)
    city.erased_members.append(city.members[member_id])
    with city.database.transaction(at) as tx:
        tx.delete("members", member_id)
    return True


def restore(city: City, at: datetime) -> bool:
    """An erased member returns under the old number, in a later transaction and often a later file."""
    if not city.erased_members:
        return False
    row = city.erased_members.pop(0)
    if row["member_id"] in city.members:
        return False
    with city.database.transaction(at) as tx:
        tx.insert("members", row | {"note": "", "phone": None})
    city.member_ids.append(row["member_id"])
    return True
