"""Kinesis Data Streams by kinesalite, an independent stand-in, which splits and merges shards as AWS does.

Here: installing it once, into a folder of the user's cache, and running it. Not here: moto's server (`kinesis.py`).
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError

from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.servers.streams.kinesis import kinesis_client

VERSION = "3.3.3"
QUICK = ("--createStreamMs", "10", "--updateStreamMs", "10", "--deleteStreamMs", "10", "--shardLimit", "100")
START_SECONDS = 60.0


@contextmanager
def kinesalite_server() -> Iterator[str]:
    """The address of a server that runs inside of the block. Skips where npm is not installed, or cannot install it."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    server = subprocess.Popen(
        ["node", _installed(), "--port", str(port), *QUICK],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(address)
        yield address
    finally:
        server.kill()
        server.wait()


def _installed() -> Path:
    """Its program."""
    if (npm := shutil.which("npm")) is None or shutil.which("node") is None:
        pytest.skip("npm is not installed, which kinesalite comes from")
    home = Path.home() / ".cache" / "lake_assets" / f"kinesalite-{VERSION}"
    program = home / "node_modules" / "kinesalite" / "cli.js"
    if not program.exists():
        home.mkdir(parents=True, exist_ok=True)
        # Its own store is JavaScript, too: no compiler is needed.
        command = [npm, "install", "--prefix", str(home), "--ignore-scripts", f"kinesalite@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install kinesalite: {done.stderr.strip()[-300:]}")
    return program


def _wait(address: str) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            kinesis_client(address).list_streams()
            return
        except BotoCoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
