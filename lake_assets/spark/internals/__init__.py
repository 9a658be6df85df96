"""PySpark without public names."""
