"""A drill for each row of docs/outside_changes.md: what happened, what is seen, what to run, the same rows."""
