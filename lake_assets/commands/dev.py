"""`lake-assets dev`: Dagster's UI and daemon on this lake, with the live feed of the demonstration beside it.

Here: the processes and their end. Started from Python, because `dagster dev &` in a script or Makefile ignores the
signals that should stop it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from lake_assets.errors import LakeError
from lake_assets.preflight import check_java, check_port

GRACE_SECONDS = 15


def dev(config: Path, *, port: int, feed: Sequence[str] | None, started: Callable[[], None]) -> int:
    """Runs until interrupted or until Dagster ends; its exit code. `feed`: arguments of `demo feed`, None for none.
    `started` is called once the processes are.

    Raises PreflightError when the machine lacks Java or the port is taken, LakeError without a workspace.yaml.
    """
    folder = config.absolute().parent
    if not (folder / "workspace.yaml").is_file():
        raise LakeError(
            f"{folder / 'workspace.yaml'} is missing: copy the one that came with lake_assets beside your lake.yaml."
        )
    check_java()
    check_port(port, "the Dagster UI")
    environment = os.environ | {"LAKE_CONFIG": str(config.absolute())}
    bin_folder = Path(sys.executable).parent
    commands = [[str(bin_folder / "dagster"), "dev", "-w", "workspace.yaml", "-p", str(port)]]
    if feed is not None:
        commands.append([sys.executable, "-m", "lake_assets.cli", "--config", str(config.absolute()), *feed])
    # Sessions of their own: Ctrl-C reaches this process only, which then stops them in order.
    children = [
        subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) for command in commands
    ]
    started()
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        while not interrupted and children[0].poll() is None:
            time.sleep(0.2)
        return 0 if interrupted else children[0].returncode
    finally:
        stop(children)


def stop(children: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Interrupts each child and waits; whatever its process group still holds afterwards is killed.

    Killing a run of the lake at any moment is harmless: it has published its batch, or nothing.
    """
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
    end = time.monotonic() + GRACE_SECONDS
    for child in children:
        try:
            child.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.terminate()
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
