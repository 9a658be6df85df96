"""What `workspace.yaml` loads: the lake that `lake.yaml` describes (or the file that LAKE_CONFIG names)."""

from lake_assets.build import build_definitions, open_lake
from lake_assets.config_file import load_lake

defs = build_definitions(open_lake(load_lake()))
