"""The simulator's files, in several endpoint settings, through the whole engine: silver equals the source's database.

The comparison reads through PyIceberg and shares no code with what it judges.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.demo.compare import compare_with_source
from lake_assets.demo.demo_commands import source_masks
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.history import generate_history
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.processes.child import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTINGS: dict[str, dict[str, Any]] = {
    "parquet": {"data_format": "parquet", "before_image": "always"},
    "csv without header, sequence and load operation, gzip, full deletes": {
        "add_column_name": False,
        "change_sequence_column": None,
        "include_op_for_full_load": False,
        "compression": "gzip",
        "delete_image": "full",
    },
    "whole transactions in one file": {
        "preserve_transactions": True,
        "cdc_path": "cdc/changes",
        "add_column_name": False,
    },
    "whole transactions gzipped beside parquet loads, without sequence and before images": {
        "preserve_transactions": True,
        "cdc_path": "cdc",
        "add_column_name": False,
        "data_format": "parquet",
        "compression": "gzip",
        "change_sequence_column": None,
        "before_image_prefix": None,
    },
    "csv with D and I for key updates, another null token": {
        "before_image_prefix": None,
        "csv_null_value": "\\N",
    },
}


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_silver_equals_the_source(spark: SparkSession, tmp_path: Path, name: str) -> None:
    settings = DmsWriterSettings(**SETTINGS[name])
    config = load_lake(ROOT / "lake.yaml", environ={"LAKE_HOME": str(tmp_path)})
    source = config.sources["bikeshare"]
    dms = source.dms.model_copy(
        update={
            field: getattr(settings, field)
            for field in (
                "data_format",
                "add_column_name",
                "csv_null_value",
                "change_sequence_column",
                "before_image_prefix",
                "include_op_for_full_load",
                "preserve_transactions",
                "cdc_path",
            )
        }
        | {"compression_type": settings.compression}
    )
    lake = open_lake(
        config.model_copy(update={"sources": {"bikeshare": source.model_copy(update={"dms": dms})}})
    )
    generate_history(
        source.location,
        tmp_path / "source.db",
        seed=11,
        changes=2_000,
        days=2,
        end=datetime(2026, 11, 8, tzinfo=UTC),
        settings=settings,
        past_trips=500,
    )
    found = log_arrivals(lake.runtime, "bikeshare")
    assert not found.unknown
    assert not found.unconfigured
    results = list(apply_tables(lake.runtime, lake.targets))
    assert {result.target.name: str(result.error) for result in results if result.error} == {}
    masks = source_masks(config)
    comparisons = compare_with_source(lake.runtime.catalog, "silver_bikeshare", tmp_path / "source.db", masks)
    assert [c for c in comparisons if not c.equal] == []
    assert len(comparisons) == 7
    assert all(c.rows_in_source for c in comparisons)
