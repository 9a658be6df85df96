"""Helpers that several test modules share.

Here: helpers without test cases. Not here: fixtures, which pytest finds in `conftest.py`; the random tests with their
own programs (`soak/`, `outside/`, `chaos/`).

- `files/`: DMS files as an endpoint writes them, the log records of a scan, and records of the log made by hand.
- `lakes/`: lakes on such files. A bench is a lake, its bucket and the oracle beside them; a shop is a bench with tables
  of one kind, which writes and checks their changes.
- `orchestration/`: lakes with Dagster around them, in this process or as a user starts it.
- `oracles/`: the expected rows of silver and gold, computed in plain Python from the files, and random histories.
- `processes/`: running a program in a separate process, these programs, the points at which they die.
- `servers/`: S3, DMS, and PostgreSQL on this machine.
- `texts/`: lake.yaml and AWS's documents as texts.
"""
