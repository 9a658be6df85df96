"""Sensors for new files, stale marts and checks."""
