"""Keeping tables small: when maintenance is due, its steps, what must survive it."""
