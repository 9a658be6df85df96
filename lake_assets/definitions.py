"""What `workspace.yaml` loads: the lake that `lake.yaml` describes (or the file that LAKE_CONFIG names)."""

from lake_assets.orchestration.lake_definitions import lake_definitions

defs = lake_definitions()
