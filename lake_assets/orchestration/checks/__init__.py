"""Asset checks."""
