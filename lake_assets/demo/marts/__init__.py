"""The marts of the demonstration."""
