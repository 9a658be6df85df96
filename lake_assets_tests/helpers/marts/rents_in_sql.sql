/*
description: Rents by the day they began, and what was paid by the day they ended.
follow:
  silver_shop.rents: {day: [began, ended]}
columns:
  day: date not null
  begun: long not null
  paid: long not null
*/
SELECT day, sum(begun) AS begun, sum(paid) AS paid
FROM (
    SELECT to_date(began) AS day, 1 AS begun, 0 AS paid FROM silver_shop.rents WHERE began >= :start AND began < :end
    UNION ALL
    SELECT to_date(ended), 0, paid FROM silver_shop.rents WHERE ended >= :start AND ended < :end
)
GROUP BY day
