"""Check everything about a recipe that needs no weights, before it costs GPU hours.

A check that needs a network which is not there is named, and the exit code is still 0. It is 2 if
something must be changed. The faults of the recipe's own text come alone, since what else there is
to say would be about another recipe.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from console.faults import Fault, RecipeError
from console.terminal import clean, make_command, say
from machine import hardware
from machine.hardware import GPU
from machine.launch import (
    launched_here,
    on_this_machine,
    this_machine,
    to_machine,
)
from machine.speed import hours_of_run
from schema.advice import LEVELS, fault_at, faults_of_error, tolerance_of, warnings_of
from schema.configs import SECTIONS
from schema.libraries import refused_values
from schema.settings import OURS, Recipe, size_of_run
from schema.stages import STAGES
from stages.cli import quiet_libraries
from stages.preflight import environment_faults
from training import problem_sets


def main(
    recipe: Recipe,
    gpu: GPU | None = None,
    tokens_per_second: float | None = None,
    show: bool = False,
    vllm_server: bool = False,
):
    """Check a recipe, its prompt, its data and its memory, without loading a weight.

    Args:
        show: first print every value, the libraries' too, with where it comes from.
        vllm_server: print nothing but the command of the vLLM server that the recipe samples from.
    """
    if vllm_server:
        say(vllm_command(on_this_machine(recipe)))
        return
    if show:
        say("\n".join(_values_shown(replace(recipe, machine=this_machine()))))
    launched = launched_here()
    stages = [stage for stage in STAGES if getattr(recipe, stage) is not None]
    faults: list[Fault] = []
    # At once, because importing the libraries below takes seconds.
    _report(environment_faults(recipe, (*stages, "evaluate"), launched, gpu), faults)
    rows, data_faults = _read_data(recipe)
    _report(data_faults, faults)
    fitted, machine_faults = fitted_to_machine(recipe, gpu)
    if gpu and fitted is not recipe:
        gpu = GPU(gpu.gib)  # its speed is one in 16 bits
    recipe = replace(fitted, machine=this_machine())
    quiet_libraries()
    library_faults = _library_faults(recipe, rows, launched, gpu)
    _say_size(recipe)
    if recipe.tolerance:
        say(tolerance_of(recipe))
    if tokens_per_second:
        hours = hours_of_run(recipe, tokens_per_second)
        if hours:
            say(f"at {tokens_per_second:g} tokens a second: at most {hours:.1f} h")
    say()
    _report([*machine_faults, *library_faults, *warnings_of(recipe)], faults)
    _conclude(faults)
    if recipe.samples_from_server:
        place = "in another terminal, on other GPUs (CUDA_VISIBLE_DEVICES=…)"
        say(f"next, {place}: {vllm_command(recipe)}")
    say(f"next: {make_command(stages[-1], recipe)}")


def vllm_command(recipe: Recipe) -> str:
    """The line for a shell that starts the recipe's vLLM server."""
    from training.vllm_server import command

    return command(recipe)


def _values_shown(recipe: Recipe) -> Iterator[str]:
    """Yield a line for each value of a recipe, as one of its processes gets it, with the line that
    sets it or what else does."""
    for name, section in recipe.resolved().items():
        if not isinstance(section, dict):
            yield f"{name}: {_text(section)}  # {recipe.places.get((name,), OURS)}"
            continue
        yield f"{name}:"
        origins = {key: recipe.places.get((name, key), OURS) for key in section}
        if name in SECTIONS:
            section = recipe.settings[name]
            origins = recipe.settings.origins[name]
        for key, value in section.items():
            if value is not None:
                yield f"  {key}: {_text(value)}  # {origins[key]}"


def _text(value: object) -> str:
    """A value in one line."""
    if isinstance(value, str) and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _report(new: Iterable[Fault], faults: list[Fault]):
    """Print new faults, errors last, on a terminal in colour; and add them to those before."""
    new = [fault for fault in dict.fromkeys(new) if fault not in faults]
    for level, colour in LEVELS.items():
        for fault in new:
            if fault.level == level:
                Console().print(Text(clean(fault.with_level()), style=colour), soft_wrap=True)
    faults += new


def _read_data(recipe: Recipe) -> tuple[list[dict], list[Fault]]:
    """The training problems, and the faults of the recipe's data."""
    rows, dropped, errors = problem_sets.read(recipe)
    faults = list(problem_sets.unfit(rows, recipe))
    for subject, error in errors.items():
        faults += faults_of_error(recipe, error, ("data",), subject)
    if dropped:
        message = (
            f"{len(dropped):,} training problems are also in the benchmarks and left out (make"
            " decontaminate)"
        )
        faults.append(fault_at(recipe, "note", ("data", "train"), message))
    return rows, faults


def _library_faults(
    recipe: Recipe, rows: list[dict], launched: dict, gpu: GPU | None
) -> list[Fault]:
    """What the libraries refuse, or else what the model, its tokenizer and the data reveal."""
    # Each process of a launcher builds its own configs of the trainers.
    configs = ("adapter", "quantization")
    if launched["num_processes"] == 1:
        configs = tuple(SECTIONS)
    refused = refused_values(recipe, configs)
    if refused:
        return refused

    from evaluation.findings import model_findings

    return list(model_findings(recipe, rows, launched, gpu))


def _conclude(faults: list[Fault]):
    """Say whether the recipe is ready, and where not; exit with code 2 if it is not."""
    errors = [fault for fault in faults if fault.level == "error"]
    if errors:
        verdict = f"not ready: {len(errors)} to change"
        places = dict.fromkeys(str(fault.place) for fault in errors if fault.place)
        if places:
            verdict += f": {', '.join(places)}"
        say(f"\n{verdict}")
        sys.exit(2)
    verdict = "ready"
    unseen = dict.fromkeys(fault.unseen for fault in faults if fault.unseen)
    if unseen:
        verdict += f" but for what was not seen: {', '.join(unseen)}"
    if any(fault.level == "warning" for fault in faults):
        verdict += ", with the warnings above"
    say(f"\n{verdict}")


def fitted_to_machine(recipe: Recipe, gpu: GPU | None) -> tuple[Recipe, list[Fault]]:
    """The recipe as this machine would run it, unless it is checked for a `gpu` elsewhere; and the
    faults and notes about the machine."""
    try:
        fitted = to_machine(recipe, gpu)
    except RecipeError as error:
        faults = []
        for fault in error.faults:
            faults.append(Fault(fault.place or "this machine", fault.message))
        return recipe, faults
    if fitted is recipe:
        return recipe, []
    device = "a T4" if gpu else hardware.device()
    dtype = recipe.model.dtype
    message = f"{device} has no arithmetic for {dtype}; a run there computes in float32"
    if dtype == "bfloat16" and (gpu or hardware.has_arithmetic("float16")):
        message += "; with an adapter, set model.dtype: float16, which takes half of that memory"
    return fitted, [fault_at(recipe, "note", ("model", "dtype"), message)]


def _say_size(recipe: Recipe):
    """Print how much the GRPO run samples, where the number of its steps is set."""
    size = size_of_run(recipe)
    if size is not None:
        steps, completions, tokens = size
        millions = tokens / 1e6
        say(f"GRPO: {steps} steps, {completions:,} completions, at most {millions:.1f} M tokens")
