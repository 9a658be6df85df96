"""The file log: which files are known, in which order, of which full load."""
