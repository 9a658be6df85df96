"""The commands of `lake-assets`. `cli.py` reads the command line and calls them."""
