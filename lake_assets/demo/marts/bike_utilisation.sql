/*
description: Per bike, its finished trips, and the kilometres since its newest closed ticket, after which maintenance is due.
key: bike_id
partition_column: null
with_silver: false
columns:
  bike_id: long not null
  model: string not null
  status: string not null
  trips: long not null
  distance_km: double not null
  hours_ridden: double not null
  maintained_at: timestamptz
  km_since_maintenance: double not null
  maintenance_due: boolean not null
comments:
  bike_id: The number on the bike's frame
  model: The maker's name for it
  status: Its status at present, as the table of bikes has it
  trips: Finished trips
  distance_km: Kilometres of all finished trips
  hours_ridden: Hours of all finished trips
  maintained_at: "When its newest ticket was closed, UTC; NULL without one"
  km_since_maintenance: Kilometres of trips that ended later
  maintenance_due: "Whether these reach `maintenance_every_km`"
settings:
  maintenance_every_km: 250
owners: ["team:operations"]
*/
WITH maintained AS (
    SELECT bike_id, max(closed_at) AS maintained_at
    FROM silver_bikeshare.maintenance_tickets
    GROUP BY bike_id
),
ridden AS (
    SELECT
        trips.bike_id,
        -- A sum of doubles depends on their order, and a row that has not changed must not differ.
        try_cast(distance_km AS decimal(18, 6)) AS km,
        unix_micros(ended_at) - unix_micros(started_at) AS micros,
        maintained_at IS NULL OR ended_at > maintained_at AS since_maintenance
    FROM silver_bikeshare.trips
    LEFT JOIN maintained ON maintained.bike_id = trips.bike_id
    WHERE ended_at IS NOT NULL
)
SELECT
    bikes.bike_id,
    model,
    status,
    count(micros) AS trips,
    CAST(coalesce(sum(km), 0) AS double) AS distance_km,
    round(coalesce(sum(micros), 0) / 3.6e9, 3) AS hours_ridden,
    maintained_at,
    CAST(coalesce(sum(km) FILTER (WHERE since_maintenance), 0) AS double) AS km_since_maintenance,
    coalesce(sum(km) FILTER (WHERE since_maintenance), 0) >= :maintenance_every_km AS maintenance_due
FROM silver_bikeshare.bikes
LEFT JOIN maintained ON maintained.bike_id = bikes.bike_id
LEFT JOIN ridden ON ridden.bike_id = bikes.bike_id
GROUP BY bikes.bike_id, model, status, maintained_at
