"""`python -m lake_assets_tests.drills`: every row of docs/outside_changes.md, done, seen, mended and compared.

Here: the command line. Not here: the drills.
"""

from typing import Annotated

import typer

from lake_assets_tests.drills import catalog, lake_yaml, objects, silver
from lake_assets_tests.drills.drill import DRILLS, Outcome, faults, run_in
from lake_assets_tests.drills.rows import rows
from lake_assets_tests.outside.run import quiet

MODULES = catalog, lake_yaml, objects, silver
"""Their drills are registered when they are imported."""


def main(
    only: Annotated[str, typer.Option(help="Only rows whose first column has this text.")] = "",
) -> None:
    """Run the drills. Exit with 1 if a row has no drill, or if one fails."""
    every = rows()
    unknown = faults(list(DRILLS), every)
    quiet()
    outcomes: list[Outcome] = []
    for row in every:
        for name, one in DRILLS.items():
            if row.happened.startswith(name) and only.lower() in row.happened.lower():
                outcomes.append(run_in(row, one))
                print(outcomes[-1].line, flush=True)
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    for outcome in failed:
        print(f"\n{outcome.row.happened}:\n{outcome.failure}")
    for fault in unknown:
        print(fault)
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} rows as the page says, in {seconds:.0f} s")
    raise typer.Exit(1 if failed or unknown or not outcomes else 0)


if __name__ == "__main__":
    typer.run(main)
