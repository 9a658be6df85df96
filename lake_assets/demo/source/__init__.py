"""The company's database and its changes."""
