"""Bronze, silver and gold as Dagster assets, and what their runs report."""
