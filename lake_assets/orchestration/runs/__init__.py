"""Runs: the continuous run, back-off, what is in flight."""
