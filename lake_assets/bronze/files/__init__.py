"""One file: what its name and its bytes say, without Spark."""
