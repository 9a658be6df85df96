"""Which alarms the webhook has accepted: the Iceberg table `lake_ops.alarms`.

Not here: which are due (`due_alarms.py`). If the table is dropped, every spell that lasts raises its alarm once more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog

from lake_assets.alarms.due_alarms import Alarm
from lake_assets.iceberg.ops_table import OpsTable, Row, ops_schema

NAME = "alarms"
_SCHEMA = ops_schema(
    id="string not null", mart="string not null", text="string not null", sent_at="timestamptz not null"
)


@dataclass(frozen=True, slots=True)
class SentAlarm:
    """An alarm that the webhook has accepted."""

    id: str
    mart: str
    text: str
    sent_at: datetime
    """UTC."""


class AlarmLog:
    """The sent alarms of one catalog. Threads and processes may share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._table = OpsTable(catalog, NAME, _SCHEMA, _sent)

    def sent(self) -> dict[str, SentAlarm]:
        """The sent alarms by id, the oldest first."""
        return self._table.parsed()

    def record(self, alarms: Iterable[Alarm]) -> None:
        """Records that the alarms have been sent. Raises as `OpsTable.append`."""
        now, alarms = datetime.now(UTC), list(alarms)
        self._table.append(
            lambda known: [
                {"id": alarm.id, "mart": alarm.mart, "text": alarm.text, "sent_at": now}
                for alarm in alarms
                if alarm.id not in known
            ]
        )


def _sent(rows: Sequence[Row]) -> dict[str, SentAlarm]:
    found = (SentAlarm(row["id"], row["mart"], row["text"], row["sent_at"].astimezone(UTC)) for row in rows)
    return {alarm.id: alarm for alarm in sorted(found, key=lambda alarm: (alarm.sent_at, alarm.id))}
