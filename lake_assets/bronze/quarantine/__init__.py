"""Rows and files that cannot be used, kept until a user decides."""
