"""Typed changes as a DataFrame."""
