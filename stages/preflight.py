"""What `make` checks before a stage begins, in a second and what it takes to read the recipe's own
data. It imports no library except torch, and torch only if a run in 16 bits is already there and
the machine must be asked.

    python -m stages.preflight recipes/x.yaml [key=value …] --stages sft grpo evaluate

Faults of the recipe, or else missing packages, folders that hold another run and files of problems
that cannot be used, are reported together, with exit code 2. What only a library can tell (a value
that its class refuses) is checked by the stages once they have imported it.

Once all is well, `own_solutions` among the stages begins in its place where the recipe has them.
"""

import argparse
import os
import sys
from collections import defaultdict

from console.faults import Fault, RecipeError
from console.terminal import clean
from machine.hardware import wrong_count
from machine.launch import counted, launch, launch_arguments, missing, read_for, recipe_arguments
from schema.meaning import warnings_of
from schema.stages import STAGES
from stages.cli import mistakes_reported
from training.problem_sets import refused_here
from training.run_folder import conflict, not_probed

OWN = "own_solutions"


def main():
    parser = argparse.ArgumentParser(prog="python -m stages.preflight", description=__doc__)
    recipe_arguments(parser)
    launch_arguments(parser)
    parser.add_argument("--machines", type=int, help="on how many machines, where not on one")
    parser.add_argument(
        "--stages",
        nargs="*",
        choices=(*STAGES, "evaluate", OWN),
        default=[],
        help="those about to run",
    )
    with mistakes_reported():
        # ARGS may hold an option for the stage, such as `--rows 400`, which the stage itself reads.
        options, unread = parser.parse_known_intermixed_args()
        options.overrides = [each for each in options.overrides if "=" in each]
        trained = [each for each in options.stages if each in STAGES]
        launched = launch(options.accelerate, options.processes, options.machines)
        recipe, faults = read_for(launched, options.recipe, options.overrides, check=())
        if recipe is not None and not faults:
            faults = missing(recipe, tuple(options.stages), launched)
            if trained and (wrong := wrong_count(launched)):
                faults.append(wrong)
            folders = defaultdict(list)
            for stage in [each for each in trained if getattr(recipe, each) is not None]:
                with counted(launched):
                    fault = conflict(recipe, stage)
                if fault is not None:
                    folders[fault.message].append(str(fault.place))
            faults += [Fault(" and ".join(places), message) for message, places in folders.items()]
            if {"sft", "grpo"} <= set(
                options.stages
            ):  # `make probe-memory`, which names one of them, trains nothing
                faults += filter(None, [not_probed(recipe)])
            faults += refused_here(recipe, bool(trained))
        if faults:
            raise RecipeError(faults)
        for warning in warnings_of(recipe) if trained else ():
            if warning.level != "note":
                print(clean(warning.with_level()), file=sys.stderr)
        if OWN in options.stages and recipe.data.own_solutions is not None:
            words = ["-m", f"stages.{OWN}", options.recipe, *options.overrides, *unread]
            os.execv(sys.executable, [sys.executable, *words, "--if-needed"])


if __name__ == "__main__":
    main()
