"""Reads a table's contract from its source database: `lake-assets init`.

The DMS guide documents type conversions by engine; each engine has a module. Not here: the models of lake.yaml
(`config/`), reading DMS's files (`bronze/`).
"""
