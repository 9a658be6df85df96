"""Converts AWS's description of a DMS task to a source of lake.yaml.

Here: the documents that `aws dms describe-…` prints, and their settings for the files. Not here: calls to AWS, or how
the settings affect reading (`bronze/`).
"""
