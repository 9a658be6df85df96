"""Spark Connect: servers, and how a client reaches them."""
