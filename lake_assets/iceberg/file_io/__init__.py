"""How PyIceberg reads and writes the files of a warehouse."""
