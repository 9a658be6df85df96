"""A table's contract through time: what its files' columns mean, and what becomes of silver when they change."""
