"""Reading the text of a `lake.yaml` and of the files that it includes: nodes, then plain values."""
