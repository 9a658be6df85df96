"""The former name of `orchestration/launcher/warm_launcher.py`."""

from lake_assets.orchestration.launcher.warm_launcher import WarmRunLauncher

__all__ = ["WarmRunLauncher"]
