"""One file: the facts in its name and its bytes, without Spark."""
