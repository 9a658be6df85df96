"""Repairs, and the life of bikes: bought, re-registered under another number, scrapped.

Here: transactions on `maintenance_tickets` (whose key is composite) and `bikes`. Not here: riding them (`city.py`).
Each operation returns whether it found something to do.
"""

from datetime import datetime

from lake_assets.demo.company import vocabulary
from lake_assets.demo.company.city import City
from lake_assets.demo.company.population import cents, new_bike


def _docked_bike(city: City) -> tuple[int, int] | None:
    """Some station with bikes and one of its bikes."""
    station_id = city.rng.choice(city.station_ids)
    rack = city.racks[station_id]
    return (station_id, city.rng.choice(rack)) if rack else None


def _ticket_numbers(city: City, bike_id: int) -> list[int]:
    return [row["ticket_no"] for row in city.tickets.values() if row["bike_id"] == bike_id]


def open_ticket(city: City, at: datetime) -> bool:
    """A docked bike goes to the workshop: ticket, bike and rack change together."""
    if (found := _docked_bike(city)) is None:
        return False
    station_id, bike_id = found
    ticket_no = max(_ticket_numbers(city, bike_id), default=0) + 1
    city.racks[station_id].remove(bike_id)
    city.workshop[bike_id] = ticket_no
    with city.database.transaction(at) as tx:
        tx.insert(
            "maintenance_tickets",
            {
                "bike_id": bike_id,
                "ticket_no": ticket_no,
                "opened_at": tx.at,
                "closed_at": None,
                "severity": city.rng.choice(("low", "medium", "high")),
                "description": vocabulary.complaint(city.rng),
                "cost": None,
            },
        )
        tx.update("bikes", bike_id, status="maintenance")
        tx.place_bike(bike_id, None)
        city.report(tx, station_id)
    return True


def close_ticket(city: City, at: datetime) -> bool:
    """The bike that waited longest in the workshop returns to a rack."""
    station_id = city.rng.choice(city.station_ids)
    if not city.workshop or not city.free_docks(station_id):
        return False
    bike_id = next(iter(city.workshop))
    key = (bike_id, city.workshop.pop(bike_id))
    city.racks[station_id].append(bike_id)
    with city.database.transaction(at) as tx:
        tx.update("maintenance_tickets", key, severity="high")
        paid = cents(city.rng.randrange(500, 30_000)) if city.rng.random() < 0.9 else None
        tx.update("maintenance_tickets", key, closed_at=tx.at, cost=paid)
        tx.update("bikes", bike_id, status="available")
        tx.place_bike(bike_id, station_id)
        city.report(tx, station_id)
    return True


def renumber_ticket(city: City, at: datetime) -> bool:
    """A ticket gets another number: half of its composite key changes. Sometimes twice in one transaction."""
    key = city.rng.choice(list(city.tickets))
    assert isinstance(key, tuple)
    bike_id, ticket_no = key
    free = max(_ticket_numbers(city, bike_id)) + city.rng.randrange(1, 4)
    with city.database.transaction(at) as tx:
        tx.update("maintenance_tickets", key, ticket_no=free)
        if city.rng.random() < 0.3:
            tx.update("maintenance_tickets", (bike_id, free), ticket_no=free + 1, severity="medium")
            free += 1
    if city.workshop.get(bike_id) == ticket_no:
        city.workshop[bike_id] = free
    return True


def delete_ticket(city: City, at: datetime) -> bool:
    """A closed ticket was a mistake."""
    closed = [key for key, row in city.tickets.items() if row["closed_at"] is not None]
    if not closed:
        return False
    with city.database.transaction(at) as tx:
        tx.delete("maintenance_tickets", city.rng.choice(closed))
    return True


def buy_bike(city: City, at: datetime) -> bool:
    """A new bike enters a rack."""
    station_id = city.rng.choice(city.station_ids)
    if not city.free_docks(station_id):
        return False
    bike_id = city.database.next_id("bike")
    city.racks[station_id].append(bike_id)
    with city.database.transaction(at) as tx:
        tx.insert("bikes", new_bike(city.rng, bike_id, tx.at))
        tx.place_bike(bike_id, station_id)
        city.report(tx, station_id)
    return True


def reregister_bike(city: City, at: datetime) -> bool:
    """A docked bike and its tickets get another number. Trips keep the number of their time."""
    candidates = [found for _ in range(10) if (found := _docked_bike(city)) is not None]
    if not candidates:
        return False
    # Prefers a bike with tickets, so that their composite keys change too.
    station_id, bike_id = max(candidates, key=lambda found: bool(_ticket_numbers(city, found[1])))
    new_id = city.database.next_id("bike")
    rack = city.racks[station_id]
    rack[rack.index(bike_id)] = new_id
    with city.database.transaction(at) as tx:
        tx.update("bikes", bike_id, bike_id=new_id)
        tx.place_bike(bike_id, None)
        tx.place_bike(new_id, station_id)
        for ticket_no in _ticket_numbers(city, bike_id):
            tx.update("maintenance_tickets", (bike_id, ticket_no), bike_id=new_id)
    return True


def scrap_bike(city: City, at: datetime) -> bool:
    """A docked bike and its tickets are deleted."""
    if (found := _docked_bike(city)) is None or len(city.bikes) < 10:
        return False
    station_id, bike_id = found
    city.racks[station_id].remove(bike_id)
    with city.database.transaction(at) as tx:
        for ticket_no in _ticket_numbers(city, bike_id):
            tx.delete("maintenance_tickets", (bike_id, ticket_no))
        tx.delete("bikes", bike_id)
        tx.place_bike(bike_id, None)
        city.report(tx, station_id)
    return True
