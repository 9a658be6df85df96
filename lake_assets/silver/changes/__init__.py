"""From changes to a table's rows: the state of each key, key moves, SCD2, timelines."""
