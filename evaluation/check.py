"""What is amiss with a recipe: the one look at it that `make check` takes, `make` before its first
stage (`check --fast`), and each stage before it begins.

The faults of its text are raised where it is read (schema/recipe.py). The rest is known in this
order: what this machine lacks, what the data lacks, what the rewards pay, and what the model
reveals. A finding is a `Fault` with a level: an error, a warning or a hint.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from console.faults import Fault, RecipeError
from console.terminal import quiet_libraries, say
from machine import hardware
from machine.hardware import GPU
from machine.launch import incomplete, not_installed, this_machine, to_machine
from runs.identity import conflicts, not_probed
from runs.state import has_training
from schema.configs import SECTIONS
from schema.recipe import Recipe
from schema.rules import tolerance_of, warnings_of
from schema.settings import refused_values, size_of_run
from schema.stages import STAGES, audits_before_training
from training import problem_sets

ELSEWHERE = ", on the machine with that GPU"


def require_machine(recipe: Recipe, stages: Sequence[str]):
    """Refuse to begin these stages where this machine lacks what they need.

    Raises:
        RecipeError: names it, and what to do.
    """
    findings = of_machine(recipe, stages, {})
    if findings:
        raise RecipeError(findings)


def fast_findings(recipe: Recipe, stages: Sequence[str], launched: dict) -> Iterator[list[Fault]]:
    """Yield what can be seen before these stages begin, without a library; and at last, where GRPO
    begins, what its rewards pay.

    Args:
        launched: how they will be launched: see `machine.launch.launch`.
    """
    trains = not STAGES.keys().isdisjoint(stages)
    findings = of_machine(recipe, stages, launched) + of_runs(recipe, stages, launched)
    with contextlib.redirect_stdout(io.StringIO()):  # the stage says what it reads
        local, is_complete = problem_sets.read_here(recipe)
        rows, findings_of_data = of_data(local, is_complete, trains)
    yield findings + findings_of_data
    if trains:
        yield list(warnings_of(recipe))
    begins = "grpo" in stages and "probe-memory" not in stages
    if begins and audits_before_training() and not has_training(recipe.stage_dir("grpo")):
        quiet_libraries()

        from evaluation.audit import of_rewards
        from evaluation.golds import some_golds

        if not is_complete:
            with contextlib.redirect_stdout(io.StringIO()):
                rows, _ = problem_sets.train_and_validation(recipe)
        yield from of_rewards(recipe, *some_golds(rows, recipe))


def findings_of(
    recipe: Recipe, stages: Sequence[str], launched: dict, gpu: GPU | None = None
) -> Iterator[list[Fault]]:
    """Yield all that can be seen without a weight, and print what else there is to know of prompt,
    lengths, golds and memory. Each part takes longer than the one before it.

    Args:
        gpu: the GPU to check for, if it is not in this machine.
    """
    findings = of_machine(recipe, stages, launched, gpu)
    if gpu is None:
        findings += of_runs(recipe, stages, launched)
    yield findings
    rows, findings = of_data(recipe)
    yield findings

    fitted, findings = fitted_to_machine(recipe, gpu)
    if gpu and fitted is not recipe:
        gpu = GPU(gpu.gib)  # its speed is one in 16 bits
    recipe = replace(fitted, machine=this_machine())
    quiet_libraries()
    _say_size(recipe)
    refused = _refused_by_libraries(recipe, launched)
    findings += refused
    if not refused:
        from evaluation.findings import of_model

        findings += of_model(recipe, rows, launched, gpu)
    say()
    yield [*findings, *warnings_of(recipe)]


def of_machine(
    recipe: Recipe, stages: Sequence[str], launched: dict, gpu: GPU | None = None
) -> list[Fault]:
    """What these stages need and lack: packages, a compiler, another recipe's run, pass rates, a
    section. What this machine lacks is a hint where the recipe is checked for a `gpu`, because the
    machine with that GPU may have it."""
    findings = not_installed(recipe, stages, launched)
    if "grpo" in stages and "probe-memory" not in stages:
        findings += not_probed(recipe)
    if gpu:
        findings = [finding.as_hint(ELSEWHERE) for finding in findings]
    return findings + incomplete(recipe, stages, launched)


def of_runs(recipe: Recipe, stages: Sequence[str], launched: dict) -> list[Fault]:
    """What stands in the way of a training here: runs of other recipes in its folders, and too few
    GPUs for the processes."""
    trained = [stage for stage in stages if stage in STAGES]
    findings = conflicts(recipe, trained)
    message = hardware.wrong_count(launched) if trained else None
    if message:
        advice = "`make check GPU=A100` checks for GPUs that are elsewhere"
        findings.append(Fault("", f"{message} ({advice})"))
    return findings


def of_data(
    recipe: Recipe, is_complete: bool = True, trains: bool = True
) -> tuple[list[dict], list[Fault]]:
    """The training problems, and the findings of the recipe's data.

    Args:
        is_complete: whether the recipe has all its sets, and none was left out that this machine
            would have to fetch.
        trains: whether a stage will learn from them.
    """
    rows, dropped, errors = problem_sets.read(recipe, is_complete)
    findings = []
    if is_complete and trains:
        findings += problem_sets.unfit(rows, recipe)
    for subject, error in errors.items():
        findings += recipe.faults_of(error, ("data",), subject)
    if dropped:
        message = (
            f"{len(dropped):,} training problems are also in the benchmarks and left out (make"
            " decontaminate)"
        )
        findings.append(recipe.fault("hint", ("data", "train"), message))
    return rows, findings


def fitted_to_machine(recipe: Recipe, gpu: GPU | None) -> tuple[Recipe, list[Fault]]:
    """The recipe as this machine would run it, unless it is checked for a `gpu` elsewhere; and the
    findings about the machine."""
    try:
        fitted = to_machine(recipe, gpu)
    except RecipeError as error:
        findings = []
        for fault in error.faults:
            findings.append(Fault(fault.place or "this machine", fault.message))
        return recipe, findings
    if fitted is recipe:
        return recipe, []
    device = "a T4" if gpu else hardware.device()
    dtype = recipe.model.dtype
    message = f"{device} has no arithmetic for {dtype}; a run there computes in float32"
    if dtype == "bfloat16" and (gpu or hardware.has_arithmetic("float16")):
        message += "; with an adapter, set model.dtype: float16, which takes half of that memory"
    return fitted, [recipe.fault("hint", ("model", "dtype"), message)]


def _say_size(recipe: Recipe):
    """Print how much the GRPO run samples, where the number of its steps is set; and how far a
    number may be from its gold."""
    size = size_of_run(recipe)
    if size is not None:
        steps, completions, tokens = size
        millions = tokens / 1e6
        line = f"GRPO: {steps} steps, {completions:,} completions, at most {millions:.1f} M tokens"
        if recipe.data.dynamic_sampling:
            times = 1 + recipe.data.dynamic_sampling
            line += f"; up to {times} times that where groups are replaced"
        say(line)
    if recipe.tolerance:
        say(tolerance_of(recipe))


def _refused_by_libraries(recipe: Recipe, launched: dict) -> list[Fault]:
    """The values that the libraries' own configs refuse."""
    # Each process of a launcher builds its own configs of the trainers.
    sections = ("adapter", "quantization")
    if launched["num_processes"] == 1:
        sections = tuple(SECTIONS)
    return refused_values(recipe, sections)
