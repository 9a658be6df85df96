"""How fast the messages of a stream land, and how much memory their reader takes."""
