"""The former place of the run launcher, which the dagster.yaml of a lake made before may name."""
