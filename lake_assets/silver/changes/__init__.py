"""From changes to what a table should hold: the state of each key, key moves, SCD2, timelines."""
