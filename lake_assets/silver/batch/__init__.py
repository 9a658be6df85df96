"""One batch of a table: its files, the position it starts from, and its figures."""
