"""Values of every type, exactly, by Arrow and Python."""
