"""A table's contract taken from its source: `lake-assets init`.

What a source's column becomes on its way through DMS is documented per engine: a module for each. Not here: what
lake.yaml may say (`config/`), or reading DMS's files (`bronze/`).
"""
