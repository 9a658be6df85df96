"""A DMS task that copies the database into files."""
