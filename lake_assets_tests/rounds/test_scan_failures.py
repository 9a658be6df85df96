"""A scan that failed: `status` says so, because the tables themselves look up to date."""

from pathlib import Path

import pytest

from lake_assets.bronze.scan.object_listing import Listing
from lake_assets.storage.object_store import StoreError
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake


def test_status_says_that_a_scan_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = command_lake(tmp_path)

    def refused(*given: object, **more: object) -> None:
        raise StoreError("the bucket refuses to be listed")

    assert call(folder, "sync") == 0
    assert call(folder, "status") == 0
    with monkeypatch.context() as patched:
        patched.setattr(Listing, "scan", refused)
        assert call(folder, "sync") == 1
    capsys.readouterr()
    assert call(folder, "status") == 1
    told = capsys.readouterr().err
    assert "shop: the newest scan failed, at " in told
    assert "the bucket refuses to be listed" in told
    assert call(folder, "sync") == 0
    capsys.readouterr()
    assert call(folder, "status") == 0
    assert "scan failed" not in capsys.readouterr().err
