"""What `make` asks before a stage begins, in well under a second. It imports no library but torch, and that only where
a run in 16 bits is there already and the machine must be asked.

    python -m stages.preflight recipes/x.yaml [key=value …] --stages sft grpo evaluate

Faults of the recipe, packages that are missing and folders that hold another run end it with exit code 2, all of them
together. What only a library can tell (a value its class refuses) the stages ask when they have imported it.
"""

import argparse
import sys

from schema.advice import advice
from schema.faults import RecipeError
from schema.launch import launch, launch_arguments, read_for, recipe_arguments
from schema.requirements import missing
from stages.cli import mistakes_reported
from training.run_folder import DEPENDS_ON, conflict, not_writable

STAGES = ("sft", "grpo", "evaluate")


def main():
    parser = argparse.ArgumentParser(prog="python -m stages.preflight", description=__doc__)
    recipe_arguments(parser)
    launch_arguments(parser)
    parser.add_argument("--stages", nargs="*", choices=STAGES, default=[], help="those that are about to run")
    # ARGS may hold an option of the stage's own, such as `--rows 400`, which the stage itself looks at.
    options, _ = parser.parse_known_intermixed_args()
    options.overrides = [each for each in options.overrides if "=" in each]
    with mistakes_reported():
        launched = launch(options.accelerate, options.processes)
        recipe, faults = read_for(launched, options.recipe, options.overrides, check=())
        if recipe is not None and not faults:
            faults = missing(recipe, tuple(options.stages), launched)
            if options.stages and (unwritable := not_writable(recipe)):
                faults.append(unwritable)
            for stage in options.stages:
                if stage in DEPENDS_ON and getattr(recipe, stage) is not None:
                    faults += conflict(recipe, stage)
        if faults:
            raise RecipeError(faults)
    for each in advice(recipe) if "sft" in options.stages or "grpo" in options.stages else ():
        if each.level != "note":
            print(each, file=sys.stderr)


if __name__ == "__main__":
    main()
