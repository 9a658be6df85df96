"""Batches of tables of current rows (`mode: current`)."""
