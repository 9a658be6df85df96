"""What each command of `lake-assets` does. `cli.py` reads the command line and calls these."""
