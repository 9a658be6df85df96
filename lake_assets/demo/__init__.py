"""The demonstration: a bike-sharing company, its database, a DMS task that copies it into files, and its marts.

Here: everything that pretends to be the world outside the lake, and the comparison of the lake with it. Only `marts`
and `demo_commands.py` know the lake: the rest imports nothing else of `lake_assets`, so that it can serve as the
independent truth.
"""
