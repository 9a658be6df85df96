/*
description: Finished trips, their revenue and distance by day (of the trip's end, UTC) and start district.
follow:
  silver_bikeshare.trips: {day: ended_at}
columns:
  day: date not null
  district: string not null
  trips: long not null
  revenue: decimal(14, 2) not null
  distance_km: double not null
owners: ["team:finance"]
*/
WITH ended AS (
    SELECT *, to_date(ended_at) AS day
    FROM silver_bikeshare.trips
    WHERE trips.ended_at >= :first_day AND trips.ended_at < date_add(:last_day, 1)
)
SELECT
    day,
    coalesce(district, 'unknown') AS district,
    count(*) AS trips,
    CAST(coalesce(sum(fare), 0) AS decimal(14, 2)) AS revenue,
    coalesce(CAST(sum(try_cast(distance_km AS decimal(18, 6))) AS double), 0.0) AS distance_km
FROM ended
LEFT JOIN silver_bikeshare.stations AS s ON s.station_id = ended.start_station_id
GROUP BY day, coalesce(district, 'unknown')
