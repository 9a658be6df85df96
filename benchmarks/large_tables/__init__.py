"""Batches of changes on large tables, beside other ways to apply them."""
