"""Contenders that need an environment of their own: one script for each, which `other_engines.py` starts."""
