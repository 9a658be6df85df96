"""What `workspace.yaml` loads: the lake that `lake.yaml` describes (or the file that LAKE_CONFIG names)."""

from lake_assets.config.config_file import load_lake
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake

defs = build_definitions(open_lake(load_lake()))
