"""Which process is sending which alarm: the Iceberg table `lake_ops.alarm_claims`.

A sender claims an alarm by a compare-and-set before it sends it. So two senders at the same moment do not both send it.
A claim ends by itself: if a process is killed, the next one sends its alarms. Not here: which alarms the webhook has
accepted (`alarm_log.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from pyiceberg.catalog import Catalog

from lake_assets.iceberg.ops_table import OpsTable, Row, ops_schema

NAME = "alarm_claims"
_SCHEMA = ops_schema(id="string not null", sender="string not null", until="timestamptz not null")


@dataclass(frozen=True, slots=True)
class Claim:
    """One alarm that a sender may send, and no other."""

    id: str
    sender: str
    until: datetime


class AlarmClaims:
    """The claims of one sender, among those of all."""

    def __init__(self, catalog: Catalog, lease: timedelta) -> None:
        """`lease`: how long a claim lasts."""
        self._table = OpsTable(catalog, NAME, _SCHEMA, _claims)
        self._lease = lease
        self._sender = uuid4().hex

    def take(self, ids: Collection[str]) -> set[str]:
        """Claims the alarms that no other sender has claimed, and returns them. Extends the claims that this sender
        already has. Raises as `OpsTable.replace`."""
        taken = set[str]()

        def decide(known: Sequence[Claim]) -> list[Row]:
            now = datetime.now(UTC)
            others = [claim for claim in known if claim.until > now and claim.sender != self._sender]
            taken.clear()
            taken.update(set(ids) - {claim.id for claim in others})
            mine = [Claim(id, self._sender, now + self._lease) for id in sorted(taken)]
            return [_row(claim) for claim in (*others, *mine)]

        self._table.replace(decide)
        return taken

    def give_back(self) -> None:
        """Ends all claims of this sender. Raises as `OpsTable.replace`."""
        self.take(())


def _row(claim: Claim) -> Row:
    return {"id": claim.id, "sender": claim.sender, "until": claim.until}


def _claims(rows: Sequence[Row]) -> list[Claim]:
    return [Claim(row["id"], row["sender"], row["until"].astimezone(UTC)) for row in rows]
