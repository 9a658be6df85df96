"""Random histories: a model database, its files as DMS would write them, arriving in any order, and silver compared
with the database. `python -m lake_assets_tests.soak --help`, or `make soak N=2000`.

Here: the random histories. Not here: chosen situations (`lake_assets_tests/silver`). Only `bucket.py` and `run.py`
import the package.
"""
