"""The demonstration with a stream as its source: its lake.yaml, and a history that is sent to a topic of Kafka.

Not here: the live part and printing (`commands/demo/demo_stream_cli.py`), the broker (`commands/demo/kafka_broker.py`).
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from lake_assets.demo.demo_commands import SOURCE
from lake_assets.demo.dms.dms_controls import column_added
from lake_assets.demo.dms.dms_files import encode_file, load_key
from lake_assets.demo.dms.dms_layout import DmsLayout
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.topic import TopicStorage
from lake_assets.demo.history import generate_history
from lake_assets.demo.source.bike_schema import SCHEMA, TABLES, Column

TOPIC = "bikeshare"
SETTINGS = DmsWriterSettings(data_format="messages")
ADDED = Column("has_shelter", "boolean", False)
"""The column that the stations get while the demonstration runs."""
STATIONS = TABLES["stations"]
_WIDER = replace(STATIONS, columns=(*STATIONS.columns, ADDED))
_DMS = {
    "change_sequence_column": SETTINGS.change_sequence_column,
    "include_null_and_empty": True,
    "before_image_settings": {"enable_before_image": True},
}


@dataclass(frozen=True, slots=True)
class StreamDemo:
    """The demonstration in a folder of its own."""

    folder: Path
    broker: str

    @property
    def config(self) -> Path:
        return self.folder / "lake.yaml"

    @property
    def database(self) -> Path:
        return self.folder / "source.db"

    @property
    def topic(self) -> str:
        return f"kafka://{self.broker}/{TOPIC}"

    def write_config(self, shipped: Path) -> None:
        """The lake.yaml of the demonstration, with a stream in the place of files. `shipped`: the one with files."""
        lake: dict[str, Any] = yaml.safe_load(shipped.read_text(encoding="utf-8"))
        lake["catalog"] |= {"uri": "catalog.db", "warehouse": "warehouse"}
        source = lake["sources"][SOURCE]
        kafka = {"bootstrap_servers": self.broker, "topic": TOPIC}
        stream = {"kafka": kafka, "engine": "postgresql", "interval": "500ms"}
        source |= {"location": "landed", "stream": stream, "dms": _DMS}
        # They hardly ever change, and a change would show the end of their reload.
        source["tables"][f"{SCHEMA}.{STATIONS.name}"]["full_load_complete"] = {"quiet_period": "2s"}
        lake.pop("alarms", None)
        self.config.write_text(yaml.safe_dump(lake, sort_keys=False, allow_unicode=True), encoding="utf-8")

    def reload_stations(self) -> int:
        """The stations get a column, and DMS loads them again, while the source goes on. Returns the number of rows."""
        storage = TopicStorage(self.topic.removeprefix("kafka://"), {STATIONS.name: _WIDER})
        began = datetime.now(UTC)
        storage.send([column_added(STATIONS, ADDED, began.isoformat())], STATIONS.name)
        with closing(sqlite3.connect(self.database)) as connection:
            found = connection.execute(
                f"SELECT {', '.join(STATIONS.column_names)}, station_id % 3 = 0 FROM {STATIONS.name}"
            ).fetchall()
        content = DmsLayout(_WIDER, SETTINGS).full_load(found, began, timedelta(microseconds=10))
        storage.write(load_key(STATIONS.name, 2, SETTINGS), encode_file(content, SETTINGS))
        return len(found)

    def send_history(
        self, *, changes: int, days: float, seed: int, progress: Callable[[int, int], None]
    ) -> None:
        """A full load and the changes since, as messages."""
        generate_history(
            self.topic,
            self.database,
            seed=seed,
            changes=changes,
            days=days,
            end=datetime.now(UTC),
            settings=SETTINGS,
            progress=progress,
        )
