"""Where files are: S3, folders, and what AWS says of a DMS task.

Not here: what a file means (`bronze/`).
"""
