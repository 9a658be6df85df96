"""A source in a folder or a bucket, the log of its files, and passes over it. Not here: records made by hand."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.scan.discovery import Discovery, discover
from lake_assets.config import S3Config, SourceConfig
from lake_assets.storage.object_store import open_store

HEADER = b"Op,commit_ts,trip_id\n"
ROW = b"I,2024-05-01 11:59:00.000000,1\n"
LATER_ROW = b"I,2024-05-01 12:59:00.000000,1\n"
TRIPS = "public/trips"


class ScannedSource:
    """Files of the source, which is a folder `root` or the prefix `in/` of a bucket, and passes over them."""

    name = "bikeshare"

    def __init__(
        self,
        source: SourceConfig,
        open_catalog: Callable[[], Catalog],
        root: Path | None = None,
        bucket: Any = None,
        s3: S3Config | None = None,
    ) -> None:
        self.source, self.open_catalog, self.root, self.bucket = source, open_catalog, root, bucket
        self.store = open_store(str(root) if root else f"s3://{bucket.name}/in", s3 or S3Config())
        self.log = FileLog(open_catalog())

    def put(self, key: str, content: bytes = HEADER + ROW, mtime: float | None = None) -> None:
        """Writes an object, in a folder with this time of modification."""
        if self.root is None:
            self.bucket.put_object(Key=f"in/{key}", Body=content)
            return
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if mtime:
            os.utime(path, (mtime, mtime))

    def run(self, **options: Any) -> Discovery:
        """A pass."""
        return discover(self.name, self.source, self.store, self.log, **options)

    def commits(self) -> str:
        """Another text after each commit to the log."""
        return self.open_catalog().load_table("lake_ops.bronze_files").metadata_location
