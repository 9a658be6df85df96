"""Generates sources of lake.yaml from a source database or a DMS task."""
