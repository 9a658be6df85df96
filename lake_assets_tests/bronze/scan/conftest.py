"""Where the files of a scanned source are: in a folder, and in a bucket."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(params=["local", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What a ScannedSource takes for it."""
    if request.param == "local":
        return {"root": tmp_path / "bronze"}
    return {"bucket": request.getfixturevalue("new_bucket")(), "s3": request.getfixturevalue("s3")}
