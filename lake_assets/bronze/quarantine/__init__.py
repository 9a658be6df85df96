"""Rows and files that cannot be used, kept until somebody decides."""
