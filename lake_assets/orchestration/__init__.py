"""Everything that is Dagster's: definitions, assets, checks, sensors, runs, the launcher."""
