"""The process that executes a run, recorded in a tag of the run.

Here: the tag's text, and finding the process by it. Not here: starting the process (`warm_launcher.py`).
"""

import socket
from functools import cache
from pathlib import Path

import psutil
from dagster import DagsterRun

from lake_assets.orchestration.shared.run_tags import HIDDEN

PROCESS = f"{HIDDEN}process"
"""Run tag: the run's id (re-executing a run copies its tags), and its process's machine, id and start time."""
SERVER = "lake_assets.orchestration.launcher.fork_server"
"""The command line of each such process contains it."""


def process_tag(run_id: str, pid: int) -> dict[str, str]:
    """The tag of a run that a process of this machine executes."""
    return {PROCESS: f"{run_id} {_machine()} {pid} {_started(pid)}"}


def is_known(run: DagsterRun) -> bool:
    """Whether the run's process is recorded and visible from this process."""
    return run.tags.get(PROCESS, "").split()[:2] == [run.run_id, _machine()]


def process_of(run: DagsterRun) -> psutil.Process | None:
    """The process of a run that `is_known`, or None if it has ended; another program may have its id by now."""
    _, _, number, started = run.tags[PROCESS].split()
    pid = int(number)
    try:
        process = psutil.Process(pid)
        ours = SERVER in process.cmdline() and _started(pid) == started
        return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


@cache
def _machine() -> str:
    """Identifies the machine, its boot and the PID namespace: containers may share a host name, and each numbers its
    processes from 1."""
    found = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            file = Path(path)
            found.append(
                file.readlink().name if file.is_symlink() else file.read_text(encoding="ascii").strip()
            )
        except OSError:
            continue  # not Linux
    return "/".join(found)


def _started(pid: int) -> str:
    """When the process started, in ticks since boot, which no clock change moves; `unknown` if it has ended."""
    try:
        after_name = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        )
        return after_name.split()[19]
    except OSError:
        return "unknown"
