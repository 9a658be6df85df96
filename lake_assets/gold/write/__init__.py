"""Storing the rows that marts and own assets have computed."""
