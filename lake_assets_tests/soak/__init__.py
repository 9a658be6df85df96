"""Random histories without end: a model database, what DMS would write of it, any way of arriving, and silver compared
with the database itself. `python -m lake_assets_tests.soak --help`, or `make soak N=2000`.

Here: that proof. Not here: situations of one's own choice (`lake_assets_tests/silver`). Nothing of the package is
imported but by `bucket.py` and `run.py`, which drive it.
"""
