"""From a source that exists to a source of lake.yaml."""
