"""Random histories that arrive in a stream. Not here: those that arrive in files (the folder above)."""
