"""Scanning a bucket for files that the log does not have."""
