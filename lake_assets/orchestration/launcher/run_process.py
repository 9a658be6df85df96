"""Which process a run was given, told by a tag of the run.

Here: writing the tag, finding the process again. Not here: making it (`warm_launcher.py`).
"""

import socket
from functools import cache
from pathlib import Path

import psutil
from dagster import DagsterRun

PROCESS = "lake_assets/process"
"""Run tag: the run's id, because re-executing a run copies its tags; where its process is, its number and its start."""
SERVER = "lake_assets.orchestration.launcher.fork_server"
"""In the command line of each such process."""


def process_tag(run_id: str, pid: int) -> dict[str, str]:
    """The tag of a run that was given the process, of this machine."""
    return {PROCESS: f"{run_id} {_here()} {pid} {_started(pid)}"}


def is_known(run: DagsterRun) -> bool:
    """Whether the run was given a process that this one can see."""
    return run.tags.get(PROCESS, "").split()[:2] == [run.run_id, _here()]


def process_of(run: DagsterRun) -> psutil.Process | None:
    """The process of a run that `is_known`, if it lives. Its number may be another program's by now."""
    _, _, number, started = run.tags[PROCESS].split()
    pid = int(number)
    try:
        process = psutil.Process(pid)
        ours = SERVER in process.cmdline() and _started(pid) == started
        return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


@cache
def _here() -> str:
    """The machine since its last start, and among which processes of it this one is: containers may share a host's
    name, and number their processes each from 1."""
    found = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            file = Path(path)
            found.append(
                file.readlink().name if file.is_symlink() else file.read_text(encoding="ascii").strip()
            )
        except OSError:
            continue  # no Linux
    return "/".join(found)


def _started(pid: int) -> str:
    """When the process started, in ticks since the machine did, which no clock moves; `unknown` of one that is gone."""
    try:
        after_name = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        )
        return after_name.split()[19]
    except OSError:
        return "unknown"
