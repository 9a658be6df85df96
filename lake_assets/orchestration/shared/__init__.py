"""Names, keys and metadata that several parts of the orchestration use."""
