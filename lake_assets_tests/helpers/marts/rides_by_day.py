"""The rides of `rides_at_once.py`, in backfills with a run for each day."""

from dataclasses import replace

from lake_assets_tests.helpers.marts.rides_at_once import MART as RIDES

MART = replace(RIDES, name="rides_by_day", days_per_run=1)
