"""Which Spark Connect server on this machine the processes of a lake use, where lake.yaml leaves that open.

Here: the choice, as the environment by which lake.yaml reads it. Not here: the server (`spark/connect_server.py`).
"""

import os
from pathlib import Path

from lake_assets.commands.setup.folder import local_folder
from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.spark.connect_server import ConnectServer, port_in_use
from lake_assets.spark.preflight import PreflightError, free_port
from lake_assets.spark.session import DEFAULT_PORT, LOCAL_HOSTS, check_server, server_address


def warm_spark(config: Path) -> tuple[ConnectServer | None, dict[str, str]]:
    """The server for the processes of this lake and the environment by which they find it; None where lake.yaml says
    that each has a Spark of its own, or that the server is on another machine."""
    lake = load_lake(config)
    folder = local_folder(lake, config)
    chosen = {}
    if lake.spark.mode != "connect":
        chosen = _chosen(port_in_use(folder) or free_port(DEFAULT_PORT))
        lake = load_lake(config, environ=os.environ | chosen)
    local = server_address(lake.spark.remote)[0] in LOCAL_HOSTS
    return (ConnectServer(lake, folder), chosen) if lake.spark.mode == "connect" and local else (None, {})


def beside_a_server(config: Path) -> LakeConfig:
    """The lake, with the server that `dev` or `spark start` keeps for it, where LAKE_SPARK_MODE may choose and has not:
    a Spark of the command's own would take a while to start, and its share of the machine."""
    lake = load_lake(config)
    port = port_in_use(local_folder(lake, config))
    if lake.spark.mode == "connect" or port is None or "LAKE_SPARK_MODE" in os.environ:
        return lake
    found = load_lake(config, environ=os.environ | _chosen(port))
    try:
        check_server(found.spark.remote)
    except PreflightError:
        return lake  # it is coming up
    return found


def _chosen(port: int) -> dict[str, str]:
    return {"LAKE_SPARK_MODE": "connect", "SPARK_REMOTE": f"sc://localhost:{port}"}
