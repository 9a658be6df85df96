"""What several test modules share, and one word for each thing.

Here: helpers without test cases. Not here: fixtures, which pytest finds in `conftest.py`; the proofs by chance with
their own programs (`soak/`, `outside/`, `chaos/`), which say what they share with these.

- `files/`: DMS files as an endpoint writes them, what a pass over them logs, and records of the log made by hand.
- `lakes/`: lakes on such files. A bench is a lake, its bucket and the oracle beside them; a shop is a bench with tables
  of one kind, which writes and checks their changes.
- `orchestration/`: lakes with Dagster around them, in this process or as a user starts it.
- `oracles/`: what silver and gold must be, computed in plain Python from the files, and histories by chance.
- `processes/`: running a program in a process of its own, the programs that are run so, the points at which they die.
- `servers/`: S3, DMS, and PostgreSQL on this machine.
- `texts/`: lake.yaml and AWS's documents as texts.
"""
