"""The former place of the run launcher: the dagster.yaml of an older lake may name it."""
