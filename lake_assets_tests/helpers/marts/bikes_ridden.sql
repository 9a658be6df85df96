/*
description: How often each bike was ridden.
key: bike_id
partition_column: null
columns:
  bike_id: long not null
  trips: long not null
  kilometres: double
*/
SELECT bike_id, count(*) AS trips, sum(distance_km) AS kilometres FROM silver_bikeshare.trips GROUP BY bike_id
