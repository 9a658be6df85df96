/*
description: >-
  Per week (from Monday on, UTC) and plan, how many members rode, and their finished trips. Without personal data: a group
  of fewer members than the setting says is left out, and so are trips of deleted members.
follow:
  silver_bikeshare.trips: {partition: started_at}
partition_column: week
partitions: week
columns:
  week: date not null
  plan: string not null
  members: long not null
  trips: long not null
  hours_ridden: double not null
  distance_km: double not null
comments:
  week: The Monday of the week in which the trips started, UTC
  plan: The member's plan at present
  members: Members who finished a trip
  trips: Their finished trips
  hours_ridden: Hours of these trips
  distance_km: Kilometres of these trips
settings:
  least_members: 5
owners: ["team:marketing"]
*/
SELECT
    to_date(date_trunc('week', started_at)) AS week,
    plan,
    count(DISTINCT trips.member_id) AS members,
    count(*) AS trips,
    round(sum(unix_micros(ended_at) - unix_micros(started_at)) / 3.6e9, 3) AS hours_ridden,
    -- A sum of doubles depends on their order, and a recomputed week must not differ.
    CAST(coalesce(sum(try_cast(distance_km AS decimal(18, 6))), 0) AS double) AS distance_km
FROM silver_bikeshare.trips
JOIN silver_bikeshare.members ON members.member_id = trips.member_id
WHERE ended_at IS NOT NULL AND started_at >= :start AND started_at < :end
GROUP BY to_date(date_trunc('week', started_at)), plan
HAVING count(DISTINCT trips.member_id) >= :least_members
