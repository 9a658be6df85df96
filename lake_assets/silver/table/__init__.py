"""What a silver table is, and where it stands: its configuration, its position in the file log, its shape."""
