"""Comparing silver tables with their files slice by slice, and repairing the rows that differ."""
