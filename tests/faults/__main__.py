"""Faults, injected for real into runs of the tiny recipe; a line each: fault, what is required,
what happened.

make faults python -m tests.faults [--only kill] [--trl]     # --trl: under trl's own trainer with
an auto-resume line
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import checkpoints, inputs, kills, limits, processes, rewards
from tests.faults.arena import PATIENCE, Arena

FAULTS = [
    fault
    for group in (kills, checkpoints, rewards, limits, inputs, processes)
    for fault in group.FAULTS
]


def soak(home: Path, kills: int):
    """One GRPO run of 400 steps, killed at random moments, against one that was not."""
    overrides, dice = ["grpo.max_steps=400", "grpo.save_steps=1"], random.Random(0)
    arena = Arena(home, "soak")
    for number in range(1, kills + 1):
        process = arena.start(*overrides)
        # From the middle of its loading to some steps into its training.
        time.sleep(dice.uniform(3, 10))
        process.kill()
        if "done, in" in process.communicate(timeout=PATIENCE)[0]:
            raise AssertionError(f"the run was over before kill {number}")
        print(f"kill {number}, newest {getattr(arena.newest(), 'name', 'none yet')}", flush=True)
    ended = arena.compared(arena.run(*overrides), *overrides)
    print(f"{kills} kills; exit {ended.exit}; {ended.weights} weights")


def inject(home: Path, name: str, trl: bool) -> int:
    """How many of the faults with this in their name did not end as required; under trl nothing
    is."""
    chosen = [fault for fault in FAULTS if name in fault.name]
    failed, began = 0, time.monotonic()
    for number, fault in enumerate(chosen, 1):
        try:
            outcome = fault.inject(Arena(home, fault.name, trl))
            happened, lacking = outcome.told(fault.required), fault.required.lacking(outcome)
        except Exception as error:  # the others are still to be seen
            happened, lacking = f"NOT INJECTED: {error!r}", [str(fault.required)]
        failed += bool(lacking) and not trl
        mark = "" if trl else "FAIL " if lacking else "ok   "
        print(f"{mark}{fault.name} | {fault.required} | {happened}", flush=True)
        left = (time.monotonic() - began) / number * (len(chosen) - number) / 60
        print(f"{number}/{len(chosen)}, {left:.0f} min left", end="\r", file=sys.stderr, flush=True)
    if not trl:
        print(f"\n{len(chosen) - failed} of {len(chosen)} faults end as required")
    return failed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="faults with this in their name")
    parser.add_argument(
        "--trl",
        action="store_true",
        help="the same faults under trl's own trainer, with auto-resume",
    )
    parser.add_argument(
        "--soak", type=int, metavar="KILLS", help="kill one run so often, and let it end"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        if options.soak:
            soak(Path(home), options.soak)
        else:
            sys.exit(inject(Path(home), options.only, options.trl) > 0)


if __name__ == "__main__":
    main()
