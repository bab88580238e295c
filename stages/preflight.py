"""What `make` checks before a stage begins. It takes a second, and the time to read the recipe's
own data. It imports no library except torch, and torch only if a run in 16 bits exists and the
machine must be asked. Only before GRPO begins, and nothing is amiss, it takes seconds more: cheats
are paid by the recipe's rewards on a sample of its data.

    python -m stages.preflight recipes/x.yaml [key=value …] --stages sft grpo evaluate

Faults of the recipe, or else missing packages, folders that hold another run and files of problems
that cannot be used, are reported together, with exit code 2. The stages check what needs a library
(a value that its class refuses) once they have imported it.

If nothing is wrong and `own_solutions` is among the stages, that stage replaces this process, where
the recipe has own solutions.
"""

import argparse
import contextlib
import io
import os
import sys

from console.faults import Fault, RecipeError, RunStopped
from console.terminal import clean
from machine.hardware import wrong_count
from machine.launch import launched_here, missing, read_for
from runs.checkpoints import has_training
from runs.identity import conflicts
from runs.state import not_probed
from schema.advice import warnings_of
from schema.recipe import Recipe
from schema.stages import STAGES, audits_before_training
from stages.cli import mistakes_reported, quiet_libraries
from training.problem_sets import refused_here, train_and_held_out

OWN_SOLUTIONS = "own_solutions"


def main():
    parser = argparse.ArgumentParser(prog="python -m stages.preflight", description=__doc__)
    parser.add_argument("recipe", help="recipes/x.yaml")
    parser.add_argument("--machines", type=int, help="on how many machines, where not on one")
    stages = (*STAGES, "evaluate", OWN_SOLUTIONS)
    parser.add_argument("--stages", nargs="*", choices=stages, default=[], help="which begin")
    with mistakes_reported():
        # ARGS may hold an option for the stage, such as `--rows 400`, which the stage itself reads.
        options, words = parser.parse_known_args()
        overrides = [word for word in words if "=" in word and not word.startswith("-")]
        launched = launched_here(options.machines)
        recipe = read_for(launched, options.recipe, overrides)
        faults = _faults(recipe, options.stages, launched)
        if faults:
            raise RecipeError(faults)
        if any(stage in STAGES for stage in options.stages):
            for warning in warnings_of(recipe):
                if warning.level != "note":
                    print(clean(warning.with_level()), file=sys.stderr)
        # `make probe-memory` names only one of the two, and trains nothing.
        trains_on_rewards = {"sft", "grpo"} <= set(options.stages)
        begins = trains_on_rewards and not has_training(recipe.stage_dir("grpo"))
        if begins and audits_before_training():
            _refuse_golds_and_rewards(recipe)
        if OWN_SOLUTIONS in options.stages and recipe.data.own_solutions is not None:
            module = f"stages.{OWN_SOLUTIONS}"
            arguments = ["-m", module, options.recipe, *words, "--if-needed"]
            os.execv(sys.executable, [sys.executable, *arguments])


def _faults(recipe: Recipe, stages: list[str], launched: dict) -> list[Fault | str]:
    """The faults for which the stages that are about to run would end."""
    training_stages = [stage for stage in stages if stage in STAGES]
    faults = missing(recipe, tuple(stages), launched)
    if training_stages:
        count_message = wrong_count(launched)
        if count_message:
            faults.append(count_message)
    faults += conflicts(recipe, training_stages)
    # `make probe-memory` names only one of the two, and trains nothing.
    if {"sft", "grpo"} <= set(stages):
        probe_fault = not_probed(recipe)
        if probe_fault:
            faults.append(probe_fault)
    return faults + list(refused_here(recipe, bool(training_stages)))


def _refuse_golds_and_rewards(recipe: Recipe):
    """Refuse golds of which above a tenth earn nothing; then pay cheats on a sample of the recipe's
    data, and refuse rewards of which one earns more than an honest answer. It is paid in this
    process, so that a reward that counts its calls counts only those of the training."""
    quiet_libraries()

    from evaluation.audit import sample_faults
    from evaluation.golds import gold_faults, some_golds

    with contextlib.redirect_stdout(io.StringIO()):  # the stage says what it reads
        rows, _ = train_and_held_out(recipe)
    gradable, ungraded = some_golds(rows, recipe)
    faults = list(gold_faults(gradable, ungraded, recipe))
    if any(fault.level == "error" for fault in faults):
        raise RecipeError(faults)
    try:
        faults = list(sample_faults(recipe, gradable))
    except RunStopped as stopped:  # as training would, which resumes once a service is back
        print(clean(f"audit: the rewards were not tried: {stopped}"), file=sys.stderr)
        return
    beaten = [fault for fault in faults if fault.level == "error"]
    if beaten:
        raise RecipeError(beaten)
    for warning in faults:
        print(clean(warning.with_level()), file=sys.stderr)


if __name__ == "__main__":
    main()
