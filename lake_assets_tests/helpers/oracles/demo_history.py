"""Small histories that the demo's tests share.

Here: how to make one, and reading it back in the form the comparison uses. Not here: the cases themselves.
"""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lake_assets.config import LakeConfig
from lake_assets.demo.compare import compare_rows, compare_with_source, source_rows
from lake_assets.demo.demo_commands import source_masks
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.written_files import WrittenFiles
from lake_assets.demo.history import generate_history
from lake_assets.demo.replay import replay_files
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.iceberg.catalog import open_catalog

END = datetime(2026, 3, 5, 18, 30, tzinfo=UTC)  # a Thursday: both days before it have a rush hour


def unequal_tables(config: LakeConfig, database: Path) -> list[str]:
    """The tables of silver that do not equal the source; checks that all seven are compared."""
    catalog, masks = open_catalog(config.catalog), source_masks(config)
    found = compare_with_source(catalog, "silver_bikeshare", database, masks)
    assert len(found) == 7
    return [one.table for one in found if not one.equal]


@dataclass
class History:
    """A generated history and where it lies."""

    folder: Path
    database: Path
    settings: DmsWriterSettings
    written: WrittenFiles

    def files(self) -> dict[str, bytes]:
        """All files by key, hidden ones as well."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


def make_history(folder: Path, settings: DmsWriterSettings | None = None, **arguments: Any) -> History:
    """A history of two days in a small town, unless the arguments say otherwise."""
    settings = settings or DmsWriterSettings()
    sizes = {"changes": 6_000, "days": 2, "stations": 12, "bikes": 110, "members": 150, "past_trips": 400}
    written = generate_history(
        folder / "bronze",
        folder / "source.db",
        **{
            "end": END,
            "settings": settings,
            "flush_interval": timedelta(hours=2),
            "load_part_rows": 25,
            **sizes,
            **arguments,
        },
    )
    return History(folder / "bronze", folder / "source.db", settings, written)


def differences(location: str | Path, database: Path, settings: DmsWriterSettings) -> dict[str, Any]:
    """The tables that a replay of the files does not reproduce exactly; with a comparison of each."""
    source = source_rows(database)
    replayed = replay_files(location, settings)
    found = {}
    for name, table in TABLES.items():
        rows = [
            tuple(struct.pack(">d", value) if isinstance(value, float) else value for value in row.values())
            for row in replayed[name]
        ]
        comparison = compare_rows(table, source[name], rows)
        if not comparison.equal:
            found[name] = comparison
    return found
