"""What follows the commits of the lake beside it: alarms, warehouses."""
