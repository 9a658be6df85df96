"""Where files are: S3 and folders; and the state of a DMS task.

Not here: the meaning of a file (`bronze/`).
"""
