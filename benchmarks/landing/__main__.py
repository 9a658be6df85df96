"""Messages a second, a second of CPU, and the most memory of the reader of a stream, from the server to the log.

`python -m benchmarks.landing [--server kinesis|kafka] [--case NAME …]`: Kinesis is a server that answers from memory,
because no stand-in is fast enough; Kafka is a real broker on this machine. The reader is a process of its own. Here:
the cases and their table. Not here: the messages (`messages.py`), the servers (`servers.py`), the reader (`reader.py`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.landing.messages import TABLES
from benchmarks.landing.servers import LARGEST, MIB, Case, kafka, kinesis

CASES = {
    "speed": Case(400_000),
    "many shards": Case(400_000, shards=50, delay=0.02),
    "long backlog": Case(1_500_000, shards=8),
    "40 of 10 MiB": Case(40, shards=4, size=LARGEST - 4096),
    "40 of 10 MiB, awkward": Case(40, shards=4, size=LARGEST - 4096, text='"\U0001f600\n' + "x" * 1000),
    "40 of 10 MiB, unreadable": Case(40, shards=4, size=LARGEST - 4096, operations=("truncate",)),
    "50,000 unreadable": Case(50_000, operations=("truncate",)),
    "400 of 1 MiB": Case(400, shards=50, size=MIB - 4096),
    "transaction of 1 M rows": Case(1_000_000, shards=4, transaction_rows=1_000_000),
}
SERVERS = {"kinesis": kinesis, "kafka": kafka}


def measured(server: str, case: Case) -> dict[str, Any]:
    """The reader's figures."""
    columns = {
        "id": "long not null",
        "customer_id": "long",
        "total": "decimal(12, 2)",
        "status": "string",
        "note": "string",
        "changed_at": "timestamp",
        "text": "string",
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with SERVERS[server](case, folder) as stream:
            config = {
                "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
                "sources": {
                    "shop": {
                        "location": str(folder / "landed"),
                        "stream": stream | {"engine": "mysql"},
                        "dms": {
                            "include_transaction_details": True,
                            "include_null_and_empty": True,
                            "before_image_settings": {"enable_before_image": True},
                        },
                        "tables": {
                            f"shop.t{n}": {"columns": columns, "primary_key": ["id"]} for n in range(TABLES)
                        },
                    }
                },
            }
            # JSON is YAML, too.
            (folder / "lake.yaml").write_text(json.dumps(config), encoding="utf-8")
            command = [sys.executable, "-m", "benchmarks.landing.reader", "lake.yaml", str(case.count)]
            ran = subprocess.run(
                command,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(Path.cwd())},
                stdout=subprocess.PIPE,
                check=True,
            )
        figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return figures


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=SERVERS, action="append")
    parser.add_argument("--case", choices=CASES, action="append")
    given = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; MB are those of the reader's process"
    )
    print("| server | case | messages | landings | messages/s | per CPU second | MB before | most MB |")
    print("|---|---|---|---|---|---|---|---|")
    for server in given.server or SERVERS:
        for name in given.case or CASES:
            case = CASES[name]
            found = measured(server, case)
            speed, per_cpu = (found["messages"] / found[name] for name in ("seconds", "cpu"))
            row = [
                server,
                name,
                f"{found['messages']:,}",
                found["landings"],
                f"{speed:,.0f}",
                f"{per_cpu:,.0f}",
            ]
            print(
                "|",
                " | ".join(map(str, [*row, f"{found['base']:.0f}", f"{found['peak']:.0f}"])),
                "|",
                flush=True,
            )
            if found["rows"] + found["faults"] != case.count or (found["rows"] and found["faults"]):
                sys.exit(f"{found['rows']} rows and {found['faults']} unreadable messages have landed")


if __name__ == "__main__":
    main()
