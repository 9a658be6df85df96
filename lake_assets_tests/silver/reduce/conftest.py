"""Benches that keep their branches, as those of `silver/write`."""

from lake_assets_tests.silver.write.conftest import keeps_branches

__all__ = ["keeps_branches"]
