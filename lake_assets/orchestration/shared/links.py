"""Links of an asset's page: to the code that computes it, and to its files in AWS's console.

Here: definition metadata. Not here: the columns and the table's name (`asset_metadata.py`).
"""

import inspect
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import dagster as dg

from lake_assets.gold.mart import Mart
from lake_assets.gold.sql_mart import SqlQuery

CODE = "dagster/code_references"
FILES = "files_in_s3"
CONSOLE = "https://s3.console.aws.amazon.com/s3/buckets"


def code_link(mart: Mart) -> dict[str, dg.CodeReferencesMetadataValue]:
    """The mart's function or `.sql` file; nothing if it has no file."""
    place = _place(mart)
    if place is None or not place[0].is_file():
        return {}
    reference = dg.LocalFileCodeReference(
        file_path=str(place[0].absolute()), line_number=place[1], label=mart.name
    )
    return {CODE: dg.CodeReferencesMetadataValue(code_references=[reference])}


def bucket_link(address: str, endpoint: str | None = None) -> dict[str, dg.UrlMetadataValue]:
    """A link to the folder in AWS's console; nothing for a folder of this machine or a store with an endpoint of its
    own, because the console does not show them."""
    parts = urlsplit(address)
    if parts.scheme not in ("s3", "s3a") or endpoint is not None:
        return {}
    prefix = quote(f"{parts.path.strip('/')}/".lstrip("/"), safe="")
    return {FILES: dg.MetadataValue.url(f"{CONSOLE}/{parts.netloc}?prefix={prefix}")}


def _place(mart: Mart) -> tuple[Path, int] | None:
    compute: Any = mart.compute
    if isinstance(compute, SqlQuery):
        return Path(compute.file), 1
    try:
        file = inspect.getsourcefile(compute)
        return None if file is None else (Path(file), inspect.getsourcelines(compute)[1])
    except (OSError, TypeError):
        return None
