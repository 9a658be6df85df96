"""Sensors: new files, stale marts, checks and maintenance that are due."""
