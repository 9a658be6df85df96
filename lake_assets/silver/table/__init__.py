"""What a silver table is: its configuration, its position in the file log, its shape."""
