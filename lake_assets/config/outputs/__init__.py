"""What follows the commits of the lake: the keys of alarms and warehouses."""
