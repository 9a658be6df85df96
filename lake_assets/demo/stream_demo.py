"""The demonstration with a stream as its source: its lake.yaml, and a history that is sent to a topic of Kafka.

Not here: the live part and printing (`commands/demo/demo_stream_cli.py`), the broker (`commands/demo/kafka_broker.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from lake_assets.demo.demo_commands import SOURCE
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.history import generate_history

TOPIC = "bikeshare"
SETTINGS = DmsWriterSettings(data_format="messages")
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
        lake.pop("alarms", None)
        self.config.write_text(yaml.safe_dump(lake, sort_keys=False, allow_unicode=True), encoding="utf-8")

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
