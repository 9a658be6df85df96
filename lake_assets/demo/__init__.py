"""The demonstration: a bike-sharing company, its database, a DMS task that copies it into files, and its marts.

Here: everything that simulates the world outside the lake, and the comparison of the lake with it. Only `marts` and
`demo_commands.py` import the lake's code: the rest is independent of it, so that it can check the lake.
"""
