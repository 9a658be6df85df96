"""From AWS's own description of a DMS task to a source of lake.yaml.

Here: documents that `aws dms describe-…` prints, and what they say about the files. Not here: asking AWS for them, or
what a setting does to reading (`bronze/`).
"""
