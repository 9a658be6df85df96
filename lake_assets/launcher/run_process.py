"""Which process a run was given, told by a tag of the run.

Here: writing the tag, finding the process again. Not here: making it (`warm_launcher.py`).
"""

import socket

import psutil
from dagster import DagsterRun

PROCESS = "lake_assets/process"
"""Run tag: the run's id, because re-executing a run copies its tags; host, process id, seconds since the epoch."""
SERVER = "lake_assets.launcher.fork_server"
"""In the command line of each such process."""
DRIFT = 60.0
"""Seconds by which the time of a process's start may change when the machine's clock is set."""


def process_tag(run_id: str, process: psutil.Process) -> dict[str, str]:
    """The tag of a run that was given the process."""
    return {PROCESS: f"{run_id} {socket.gethostname()} {process.pid} {process.create_time()}"}


def is_known(run: DagsterRun) -> bool:
    """Whether the run was given a process on this machine."""
    return run.tags.get(PROCESS, "").split()[:2] == [run.run_id, socket.gethostname()]


def process_of(run: DagsterRun) -> psutil.Process | None:
    """The process of a run that `is_known`, if it lives. Its number may be another program's by now."""
    _, _, pid, began = run.tags[PROCESS].split()
    try:
        process = psutil.Process(int(pid))
        ours = SERVER in process.cmdline() and abs(process.create_time() - float(began)) < DRIFT
        return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
