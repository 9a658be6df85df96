"""The marts of the demonstration."""

DEMO_MARTS = tuple(
    f"lake_assets.demo.marts.{name}"
    for name in (
        "racks_empty_now",
        "racks_to_refill",
        "station_daily",
        "station_hourly",
        "trip_revenue_daily",
        "bike_utilisation",
        "member_activity_weekly",
    )
)
"""As `gold.marts` of lake.yaml names them."""
