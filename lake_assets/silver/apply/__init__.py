"""Applying batches: the order of the steps, the retries, a rebuild."""
