"""A table's commits: listing and comparing them, going back to one, and having a table wait."""
