"""From changes to what becomes of each key: the last change of each, and rows that are followed from key to key."""
