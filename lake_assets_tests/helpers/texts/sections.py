"""Sections of a lake.yaml, with defaults for everything that a test does not set."""

from typing import Any

from lake_assets.config import SourceConfig, TableConfig

COLUMNS = {"id": "long not null", "at": "timestamptz", "day": "date", "name": "string"}


def table(**settings: Any) -> TableConfig:
    """A table with a key."""
    return TableConfig.model_validate({"columns": COLUMNS, "primary_key": ["id"], **settings})


def source(tables: dict[str, Any], **settings: Any) -> SourceConfig:
    """A source of tables with a key."""
    filled = {name: {"columns": COLUMNS, "primary_key": ["id"], **given} for name, given in tables.items()}
    return SourceConfig.model_validate({"location": "bronze", "tables": filled, **settings})
