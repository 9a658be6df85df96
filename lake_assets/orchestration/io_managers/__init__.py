"""IO managers: a bronze partition's DMS files, an Iceberg table."""
