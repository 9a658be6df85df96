"""Files as typed changes, decoded without Spark."""
