"""What `make` checks before a stage begins. It takes a second, and the time to read the recipe's
own data. It imports no library except torch, and torch only if a run in 16 bits exists and the
machine must be asked. Only before GRPO begins, and nothing is amiss, it takes seconds more: hacks
are paid by the recipe's rewards on a sample of its data.

    python -m stages preflight recipes/x.yaml [key=value …] --stages sft grpo evaluate

Faults of the recipe, or else missing packages, folders that hold another run and files of problems
that cannot be used, are reported together, with exit code 2. The stages check what needs a library
(a value that its class refuses) once they have imported it.
"""

import contextlib
import io
import sys
from collections.abc import Sequence

from console.faults import Fault, RecipeError, RunStopped
from console.terminal import clean
from machine import hardware
from machine.hardware import GPU
from machine.launch import incomplete, launched_here, not_installed
from runs.checkpoints import has_training
from runs.identity import conflicts, not_probed
from schema.advice import warnings_of
from schema.recipe import Recipe
from schema.stages import STAGES, audits_before_training
from stages.cli import quiet_libraries
from training.problem_sets import refused_here, train_and_validation


def main(recipe: Recipe, stages: list[str] | None = None, machines: int | None = None):
    """Check what needs no library, before these stages begin."""
    stages = stages or []
    trains = any(stage in STAGES for stage in stages)
    faults = environment_faults(recipe, stages, launched_here(machines))
    faults += refused_here(recipe, trains)
    if faults:
        raise RecipeError(faults)
    if trains:
        for warning in warnings_of(recipe):
            if warning.level != "note":
                print(clean(warning.with_level()), file=sys.stderr)
    begins = {"grpo", "evaluate"} <= set(stages) and not has_training(recipe.stage_dir("grpo"))
    if begins and audits_before_training():
        _refuse_golds_and_rewards(recipe)


def environment_faults(
    recipe: Recipe, stages: Sequence[str], launched: dict, gpu: GPU | None = None
) -> list[Fault]:
    """The faults of packages, of the run's folder, of the probe that the recipe needs, and of the
    number of GPUs, for the stages that are about to run. What is missing here is a note if the
    recipe is checked for a `gpu`, because the machine with that GPU may have it."""
    training_stages = [stage for stage in stages if stage in STAGES]
    faults = not_installed(recipe, tuple(stages), launched)
    # `make probe-memory` names GRPO alone, and trains nothing.
    if "grpo" in stages and "evaluate" in stages:
        probe_fault = not_probed(recipe)
        if probe_fault:
            faults.append(probe_fault)
    if gpu:
        where = ", on the machine with that GPU"
        faults = [Fault(fault.place, f"{fault.message}{where}", "note") for fault in faults]
        return faults + incomplete(recipe, tuple(stages), launched)
    faults += conflicts(recipe, training_stages)
    faults += incomplete(recipe, tuple(stages), launched)
    if training_stages:
        count_message = hardware.wrong_count(launched)
        if count_message:
            advice = "`make check GPU=A100` checks for GPUs that are elsewhere"
            faults.append(Fault("", f"{count_message} ({advice})"))
    return faults


def _refuse_golds_and_rewards(recipe: Recipe):
    """Refuse golds of which above a tenth earn nothing; then pay hacks on a sample of the recipe's
    data, and refuse rewards of which one earns more than an honest answer. It is paid in this
    process, so that a reward that counts its calls counts only those of the training."""
    quiet_libraries()

    from evaluation.audit import sample_faults
    from evaluation.golds import gold_faults, some_golds

    with contextlib.redirect_stdout(io.StringIO()):  # the stage says what it reads
        rows, _ = train_and_validation(recipe)
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
