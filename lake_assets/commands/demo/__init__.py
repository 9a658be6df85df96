"""The demonstration on the command line."""
