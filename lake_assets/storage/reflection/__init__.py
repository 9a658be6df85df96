"""Reads a table's contract from its source database: for `lake-assets init`, and for the check `same_columns`.

The DMS guide documents type conversions by engine; each engine has a module. Not here: the models of lake.yaml
(`config/`), reading DMS's files (`bronze/`).
"""
