"""Lakes that earlier releases wrote, and that today's code goes on with. `lake_of_*.tar.xz` are stored lakes."""
