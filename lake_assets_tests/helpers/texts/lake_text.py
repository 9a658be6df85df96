"""A good lake.yaml, and variations of it."""

GOOD = """
catalog:
  name: lake
  type: sqlite
  uri: ${LAKE_HOME:-.lake}/catalog.db
  warehouse: ${LAKE_HOME:-.lake}/warehouse
sources:
  bikeshare:
    location: ${LAKE_HOME:-.lake}/bronze
    dms: {timestamp_column_name: commit_ts, csv_null_value: "NULL"}
    tables:
      public.trips:
        primary_key: [trip_id]
        columns:
          trip_id: long not null
          fare: decimal(10, 2)
        partition_by: ["bucket(16, trip_id)"]
gold:
  start_date: 2026-01-01
"""


def table(text: str) -> str:
    """GOOD with other settings for its table."""
    return GOOD[: GOOD.index("        primary_key")] + text + GOOD[GOOD.index("gold:") :]
