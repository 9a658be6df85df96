"""DMS files as a DataFrame of typed changes."""
