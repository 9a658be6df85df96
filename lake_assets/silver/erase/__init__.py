"""Removing every row of some keys from a table and from the files that it is computed from."""
