"""The run launcher that forks warm processes."""
