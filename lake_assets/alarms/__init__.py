"""Alarms about rows of marts: which are due, sending them to a webhook, and which have been sent."""
