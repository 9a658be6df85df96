"""Readers of streams, behind one small interface."""

from lake_assets.bronze.stream.clients.client import Client, Message, Polled, StreamFault, StreamLost

__all__ = ["Client", "Message", "Polled", "StreamFault", "StreamLost"]
