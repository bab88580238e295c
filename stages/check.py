"""Everything about a recipe that can be seen without loading a weight, before it costs GPU hours.

What needs a network that is not there is named, and the rest is checked: the exit code is then 0.
It is 2 if something must be changed.
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
from schema.configs import SECTIONS, size_of_run
from schema.meaning import LEVELS, fault_at, not_seen, warnings_of
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
        recipe: the recipe without its faulty keys, or None if the rest makes no recipe. `faults`:
            of those keys.
        show: first print the whole recipe as a run would save it, with what its base says and our
            defaults.
    """
    if show and recipe is not None:
        say(as_yaml(recipe.resolved()))
    of_keys, faults = faults, list(faults)
    printed: set[Fault] = set()
    if recipe is not None:
        trained = [each for each in STAGES if getattr(recipe, each) is not None]
        faults += _missing(recipe, (*trained, "evaluate"), launched, card)
        faults += filter(None, [not_probed(recipe)])
        if not card and (wrong := hardware.wrong_count(launched)):
            faults.append(Fault("", f"{wrong} (CARD=A100 checks for GPUs that are elsewhere)"))
        say_new(faults, printed)  # at once, for importing the libraries below takes seconds
        rows, dropped, errors = problem_sets.read(recipe)
        of_data = list(problem_sets.unfit(rows, recipe))
        for what, error in errors.items():
            of_data += not_seen(recipe, error, ("data",), what)
        if dropped:
            message = (
                f"{len(dropped):,} training problems are also in the benchmarks and left out (make"
                " decontaminate)"
            )
            of_data.append(fault_at(recipe, "note", ("data", "train"), message))
        say_new([fault for fault in of_data if fault.level == "error"], printed)
        faults += of_data
        recipe, fitting = fitted_to_machine(recipe, card)
        faults += fitting
        quiet_libraries()
        # A launcher's processes build their own.
        configs = tuple(SECTIONS) if launched["num_processes"] == 1 else ("adapter", "quantization")
        refused = refused_values(recipe, configs)
        if not of_keys:
            faults += refused
        of_rewards = {place for keys, place in recipe.places.items() if keys[0] == "rewards"}
        paid = not of_rewards.intersection(fault.place for fault in of_keys)
        if recipe.model.name_or_path or recipe.model.build:
            from evaluation.findings import model_findings

            faults += model_findings(recipe, rows, launched, card, sized=not refused, paid=paid)
        faults += warnings_of(recipe)
        if not paid:
            place = recipe.place("rewards")
            faults = [fault for fault in faults if fault.level == "error" or fault.place != place]
        with counted(launched):
            _say_time(recipe, tokens_per_second)
        say()
    faults = list(dict.fromkeys(faults))
    say_new(faults, printed)
    _conclude(faults)
    say(f"next: {make_command(trained[-1], recipe)}")


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
    """What `machine.launch.missing` says. The machine that has the `card` may have the packages."""
    level, where = ("note", ", on the machine with that card") if card else ("error", "")
    installed = not_installed(recipe, stages, launched)
    packages = [Fault(fault.place, f"{fault.message}{where}", level) for fault in installed]
    return packages + incomplete(recipe, stages, launched)


def say_new(faults: list[Fault], printed: set[Fault]):
    """Print the faults that are not printed yet, errors last, and on a terminal in colour."""
    for level, colour in LEVELS.items():
        for fault in dict.fromkeys(faults):
            if fault.level == level and fault not in printed:
                Console().print(Text(clean(fault.with_level()), style=colour), soft_wrap=True)
    printed.update(faults)


def fitted_to_machine(recipe: Recipe, card: float | None) -> tuple[Recipe, list[Fault]]:
    """The recipe as this machine would run it, unless it is checked for a `card` elsewhere; and
    what to say about it."""
    try:
        fitted = recipe if card else fit.to_machine(recipe)
    except RecipeError as error:
        return recipe, [
            Fault(fault.place or "this machine", fault.message) for fault in error.faults
        ]
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
    message += (
        f"; {half}"
        if hardware.has_arithmetic("float16") and recipe.model.dtype == "bfloat16"
        else ""
    )
    return fitted, [fault_at(recipe, "note", ("model", "dtype"), message)]


def _say_time(recipe: Recipe, tokens_per_second: float | None):
    if (size := size_of_run(recipe)) is None:
        return
    steps, completions, tokens = size
    say(f"GRPO: {steps} steps, {completions:,} completions, at most {tokens / 1e6:.1f} M tokens")
    if tokens_per_second:
        say(
            f"at {tokens_per_second:g} tokens a second: at most"
            f" {tokens / tokens_per_second / 3600:.1f} h"
        )


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
