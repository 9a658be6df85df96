"""A table's contract through time: the meaning of its files' columns, and the effect of their changes on silver."""
