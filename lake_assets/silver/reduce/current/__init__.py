"""Tables of current rows: the last change of each key, rows that are followed from key to key, late batches."""
