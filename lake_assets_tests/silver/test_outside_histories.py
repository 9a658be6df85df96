"""Random histories with operators' actions between their turns, some of which were wrong once.

Here: those seeds. Not here: new ones (`python -m lake_assets_tests.outside`), single actions
(`test_outside_changes.py`).
"""

import pytest

from lake_assets_tests.outside.run import run

# What each of them found has a test of its own.
pytestmark = [pytest.mark.spark, pytest.mark.long]

SEEDS = {
    14: "recover moved a position above a stranger's delete",
    3087: "recover took a transaction file that came late for one that was applied",
    3113: "a CDC file was encoded again after its table was rolled back, and the one before it expired",
    3114: "a full load was waited for because a part of it was there twice",
    3135: "a copy of a part went to another folder, and was a part of its own",
    3187: "a copy of the load before lay beside the reload, which was then compressed over it",
    5093: "a rebuild waited for a file of a later turn",
    7167: "an object was copied beside a moved one whose rows had been requested again",
    7173: "a rebuild without a position left out rows of expired files that the file log had lost",
    8236: "a row that the load had read was deleted within a hundredth of a second of its insert",
    8060: "the reload's part was moved to where a part of the load before had been moved",
    3265: "the reload's part went to another folder, and the load before was looked for under its name",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_wrong_once(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, outcome.failure
