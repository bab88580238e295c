"""Check everything about a recipe that needs no weights, before it costs GPU hours.

A check that needs a network which is not there is named, and the exit code is still 0. It is 2 if
something must be changed.
"""

import argparse
import sys

from rich.console import Console
from rich.text import Text

from console.faults import Fault, RecipeError
from console.terminal import clean, make_command, say
from machine import fit, hardware
from machine.hardware import card_named
from machine.launch import (
    counted,
    incomplete,
    launch,
    launch_arguments,
    not_installed,
    read_for,
    recipe_arguments,
)
from schema.advice import LEVELS, fault_at, faults_of_error, warnings_of
from schema.configs import SECTIONS, size_of_run
from schema.recipe import Recipe, refused_values
from schema.stages import STAGES
from stages.cli import mistakes_reported, quiet_libraries
from training import problem_sets
from training.run_folder import as_yaml, not_probed


def main(
    recipe: Recipe | None,
    faults: list[Fault],
    launched: dict,
    card: float | None,
    tokens_per_second: float | None,
    show: bool = False,
):
    """Check a recipe, its prompt, its data and its memory, without loading a weight.

    Args:
        recipe: the recipe without its faulty keys, or None if the remaining keys make no recipe.
        faults: the faults of its keys.
        show: first print the recipe as a run would save it, with its base's keys and our defaults.
    """
    printed: set[Fault] = set()
    faults = list(dict.fromkeys(faults))
    if recipe is None:
        say_new(faults, printed)
        _conclude(faults)
        return
    if show:
        say(as_yaml(recipe.resolved()))
    stages = [stage for stage in STAGES if getattr(recipe, stage) is not None]
    key_faults = faults
    faults = faults + _environment_faults(recipe, (*stages, "evaluate"), launched, card)
    say_new(faults, printed)  # at once, because importing the libraries below takes seconds
    rows, data_faults = _read_data(recipe)
    say_new([fault for fault in data_faults if fault.level == "error"], printed)
    recipe, machine_faults = fitted_to_machine(recipe, card)
    faults += data_faults + machine_faults
    quiet_libraries()
    faults = _with_library_faults(recipe, faults, key_faults, rows, launched, card)
    with counted(launched):
        _say_time(recipe, tokens_per_second)
    say()
    faults = list(dict.fromkeys(faults))
    say_new(faults, printed)
    _conclude(faults)
    say(f"next: {make_command(stages[-1], recipe)}")


def _environment_faults(
    recipe: Recipe, stages: tuple[str, ...], launched: dict, card: float | None
) -> list[Fault]:
    """The faults of packages, of the probe that the recipe needs, and of the number of GPUs."""
    faults = _missing(recipe, stages, launched, card)
    probe_fault = not_probed(recipe)
    if probe_fault:
        faults.append(probe_fault)
    count_message = None if card else hardware.wrong_count(launched)
    if count_message:
        faults.append(Fault("", f"{count_message} (CARD=A100 checks for GPUs that are elsewhere)"))
    return faults


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


def _with_library_faults(
    recipe: Recipe,
    faults: list[Fault],
    key_faults: list[Fault],
    rows: list[dict],
    launched: dict,
    card: float | None,
) -> list[Fault]:
    """The faults, and in addition what the libraries and the model say."""
    # Each process of a launcher builds its own configs of the trainers.
    configs = tuple(SECTIONS) if launched["num_processes"] == 1 else ("adapter", "quantization")
    refused = refused_values(recipe, configs)
    faults = faults if key_faults else faults + refused
    reward_places = {place for keys, place in recipe.places.items() if keys[0] == "rewards"}
    paid = not reward_places.intersection(fault.place for fault in key_faults)
    if recipe.model.name_or_path or recipe.model.build:
        from evaluation.findings import model_findings

        model_faults = model_findings(recipe, rows, launched, card, sized=not refused, paid=paid)
        faults = [*faults, *model_faults]
    faults = [*faults, *warnings_of(recipe)]
    if paid:
        return faults
    # A faulty reward is left out of the recipe, so warnings about the remaining ones would mislead.
    place = recipe.place("rewards")
    return [fault for fault in faults if fault.level == "error" or fault.place != place]


def _conclude(faults: list[Fault]):
    """Say whether the recipe is ready, and where not; exit with code 2 if it is not."""
    errors = [fault for fault in faults if fault.level == "error"]
    if errors:
        places = dict.fromkeys(str(fault.place) for fault in errors if fault.place)
        at = f": {', '.join(places)}" if places else ""
        say(f"\nnot ready: {len(errors)} to change{at}")
        sys.exit(2)
    unseen = ", ".join(dict.fromkeys(fault.unseen for fault in faults if fault.unseen))
    but = f" but for what was not seen: {unseen}" if unseen else ""
    warned = any(fault.level == "warning" for fault in faults)
    say(f"\nready{but}{', with the warnings above' if warned else ''}")


def _missing(
    recipe: Recipe,
    stages: tuple[str, ...],
    launched: dict,
    card: float | None,
) -> list[Fault]:
    """The faults of `machine.launch.missing`. A missing package is a note if the recipe is checked
    for a `card`, because the machine with that card may have it."""
    faults = not_installed(recipe, stages, launched)
    if card:
        where = ", on the machine with that card"
        faults = [Fault(fault.place, f"{fault.message}{where}", "note") for fault in faults]
    return faults + incomplete(recipe, stages, launched)


def say_new(faults: list[Fault], printed: set[Fault]):
    """Print the faults that are not printed yet, errors last, and on a terminal in colour."""
    for level, colour in LEVELS.items():
        for fault in dict.fromkeys(faults):
            if fault.level == level and fault not in printed:
                Console().print(Text(clean(fault.with_level()), style=colour), soft_wrap=True)
    printed.update(faults)


def fitted_to_machine(recipe: Recipe, card: float | None) -> tuple[Recipe, list[Fault]]:
    """The recipe as this machine would run it, unless it is checked for a `card` elsewhere; and the
    faults and notes about the machine."""
    try:
        fitted = recipe if card else fit.to_machine(recipe)
    except RecipeError as error:
        places = [fault.place or "this machine" for fault in error.faults]
        messages = [fault.message for fault in error.faults]
        return recipe, list(map(Fault, places, messages))
    half = "with an adapter, set model.dtype: float16, which takes half of that memory"
    if card == hardware.CARDS["T4"] and recipe.model.dtype == "bfloat16":
        message = f"a T4 has no arithmetic for bfloat16 and would compute in float32; {half}"
        return recipe, [fault_at(recipe, "note", ("model", "dtype"), message)]
    if fitted is recipe:
        return recipe, []
    message = (
        f"{hardware.device()} has no arithmetic for {recipe.model.dtype}; a run here computes in"
        " float32"
    )
    if hardware.has_arithmetic("float16") and recipe.model.dtype == "bfloat16":
        message += f"; {half}"
    return fitted, [fault_at(recipe, "note", ("model", "dtype"), message)]


def _say_time(recipe: Recipe, tokens_per_second: float | None):
    """Print the size of the GRPO run, and its hours where the speed is known."""
    size = size_of_run(recipe)
    if size is None:
        return
    steps, completions, tokens = size
    say(f"GRPO: {steps} steps, {completions:,} completions, at most {tokens / 1e6:.1f} M tokens")
    if tokens_per_second:
        hours = tokens / tokens_per_second / 3600
        say(f"at {tokens_per_second:g} tokens a second: at most {hours:.1f} h")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.check", description=__doc__)
    recipe_arguments(parser)
    launch_arguments(parser)
    card_help = "a GPU that is not in this machine: its GiB, or a name such as H100"
    parser.add_argument("--card", type=card_named, help=card_help)
    parser.add_argument(
        "--tokens-per-second", type=float, help="of all processes together; estimates the hours"
    )
    parser.add_argument(
        "--show", action="store_true", help="print the whole recipe: its base's keys, our defaults"
    )
    with mistakes_reported():
        options = parser.parse_intermixed_args()
        launched = launch(options.accelerate, options.processes)
        recipe, faults = read_for(launched, options.recipe, options.overrides, check=())
        main(recipe, faults, launched, options.card, options.tokens_per_second, options.show)
