"""Readers of streams, behind one small interface."""

from lake_assets.bronze.stream.clients.client import (
    EXPIRED,
    MOST_BYTES,
    SILENT_SECONDS,
    Client,
    Message,
    Polled,
    StreamFault,
    StreamLost,
    Unread,
)

__all__ = [
    "EXPIRED",
    "MOST_BYTES",
    "SILENT_SECONDS",
    "Client",
    "Message",
    "Polled",
    "StreamFault",
    "StreamLost",
    "Unread",
]
