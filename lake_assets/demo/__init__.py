"""The demonstration source: a bike-sharing company, its database, and a DMS task that copies it into files.

Here: everything that pretends to be the world outside the lake, and the comparison of the lake with it. Not here:
any part of the lake. This package imports nothing else of `lake_assets`, so it can serve as the independent truth.
"""

from lake_assets.demo.compare import TableComparison, compare_with_source
from lake_assets.demo.dms_settings import DmsWriterSettings
from lake_assets.demo.feed import run_feed
from lake_assets.demo.history import generate_history
from lake_assets.demo.replay import replay_files
from lake_assets.demo.schema import SCHEMA, TABLES, Column, SourceTable
from lake_assets.demo.written_files import WrittenFiles

__all__ = [
    "SCHEMA",
    "TABLES",
    "Column",
    "DmsWriterSettings",
    "SourceTable",
    "TableComparison",
    "WrittenFiles",
    "compare_with_source",
    "generate_history",
    "replay_files",
    "run_feed",
]
