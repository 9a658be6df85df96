"""The demonstration's source behind a stream."""
