"""Selects the Spark Connect server on this machine for the processes of a lake, if lake.yaml does not name one.

Here: the selection, as environment variables that lake.yaml reads. Not here: the server
(`spark/connect/connect_server.py`).
"""

import os
from pathlib import Path

from lake_assets.commands.setup.folder import local_folder
from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.spark.connect.connect_address import DEFAULT_PORT, LOCAL_HOSTS, check_server, server_address
from lake_assets.spark.connect.connect_server import ConnectServer, port_in_use
from lake_assets.spark.preflight import PreflightError, free_port


def warm_spark(config: Path) -> tuple[ConnectServer | None, dict[str, str]]:
    """The server for the processes of this lake, and the environment variables by which they find it. No server if
    lake.yaml gives each process its own Spark, or names a server on another machine."""
    lake = load_lake(config)
    folder = local_folder(lake, config)
    chosen = {}
    if not lake.spark.is_remote:
        chosen = _chosen(port_in_use(folder) or free_port(DEFAULT_PORT))
        lake = load_lake(config, environ=os.environ | chosen)
    local = lake.spark.mode == "connect" and server_address(lake.spark.remote)[0] in LOCAL_HOSTS
    return (ConnectServer(lake, folder), chosen) if local else (None, {})


def on_running_server(config: Path) -> LakeConfig:
    """The lake's configuration, with the server of `dev` or `spark start` if one runs and LAKE_SPARK_MODE is not set: a
    Spark of the command's own would need time to start, and its share of the machine."""
    lake = load_lake(config)
    port = port_in_use(local_folder(lake, config))
    if lake.spark.is_remote or port is None or "LAKE_SPARK_MODE" in os.environ:
        return lake
    found = load_lake(config, environ=os.environ | _chosen(port))
    try:
        check_server(found.spark.remote)
    except PreflightError:
        return lake  # the server is still starting
    return found


def _chosen(port: int) -> dict[str, str]:
    return {"LAKE_SPARK_MODE": "connect", "SPARK_REMOTE": f"sc://localhost:{port}"}
