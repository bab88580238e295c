"""Check everything about a recipe that needs no weights, before it costs GPU hours.

A check that needs a network which is not there is named, and the exit code is still 0. It is 2 if
something must be changed. The faults of the recipe's own text come alone, since what else there is
to say would be about another recipe.

`make` checks so before its first stage, and before only what takes a second, and the time to read
the recipe's own data; where GRPO begins, hacks are paid by its rewards besides, which takes seconds
more:

    python -m stages check recipes/x.yaml [key=value …] --fast --stages sft grpo evaluate
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

from rich.console import Console
from rich.text import Text

from console.faults import Fault, RecipeError
from console.terminal import clean, make_command, say
from evaluation.check import fast_findings, findings_of, fitted_to_machine
from machine.hardware import GPU
from machine.launch import launched_here, on_this_machine, this_machine
from schema.configs import SECTIONS
from schema.recipe import Recipe
from schema.settings import OURS
from schema.stages import STAGES

LEVELS = {"hint": "cyan", "warning": "yellow", "error": "bold red"}  # with their colours


def main(
    recipe: Recipe,
    gpu: GPU | None = None,
    show: bool = False,
    vllm_server: bool = False,
    fast: bool = False,
    stages: list[str] | None = None,
    machines: int | None = None,
) -> list[Fault]:
    """Check a recipe, its prompt, its data and its memory, without loading a weight. Return the
    findings.

    Args:
        show: first print every value, the libraries' too, with where it comes from.
        vllm_server: print nothing but the command of the vLLM server that the recipe samples from.
        fast: only what needs no library, for the `stages` that `make` is about to run.
        machines: on how many they will run, where not on one.
    """
    if vllm_server:
        say(vllm_command(on_this_machine(recipe)))
        return []
    launched = launched_here(machines)
    if fast:
        return _check_fast(recipe, stages or [], launched)
    if show:
        say("\n".join(_values_shown(replace(recipe, machine=this_machine()))))
    trained = [stage for stage in STAGES if getattr(recipe, stage) is not None]
    findings: list[Fault] = []
    for part in findings_of(recipe, (*trained, "evaluate"), launched, gpu):
        looked_at = [finding for finding in part if not finding.unseen]
        findings += _print(looked_at, findings)
        findings += [finding for finding in part if finding.unseen]
    _say_unseen(findings)
    _conclude(findings)
    if recipe.samples_from_server:
        place = "in another terminal, on other GPUs (CUDA_VISIBLE_DEVICES=…)"
        fitted, _ = fitted_to_machine(recipe, gpu)
        say(f"next, {place}: {vllm_command(replace(fitted, machine=this_machine()))}")
    if any("." in name for name in recipe.rewards):  # not ours
        say(f"a learner looks for what your rewards overpay: {make_command('attack', recipe)}")
    say(f"next: {make_command(trained[-1], recipe)}")
    return findings


def _check_fast(recipe: Recipe, stages: list[str], launched: dict) -> list[Fault]:
    """Print the warnings. Raises RecipeError with the errors."""
    findings: list[Fault] = []
    errors: list[Fault] = []
    for number, part in enumerate(fast_findings(recipe, stages, launched)):
        errors += [finding for finding in part if finding.level == "error"]
        if errors and number == 0:  # the later parts take seconds
            break
        warnings = [finding for finding in part if finding.level == "warning"]
        findings += _print(warnings, findings, sys.stderr)
    if errors:
        raise RecipeError(_distinct(errors, []))
    return findings


def _distinct(part: list[Fault], before: list[Fault]) -> list[Fault]:
    """The findings that are not among those before, each once. The data's have the keys before a
    message about a file that a run wrote, which a run's folder has without any."""
    new: list[Fault] = []
    for finding in part:
        earlier = [*before, *new]
        without_place = tuple(fault.message for fault in earlier if not fault.place)
        if finding not in earlier and not finding.message.endswith(without_place):
            new.append(finding)
    return new


def _print(part: list[Fault], before: list[Fault], file: TextIO | None = None) -> list[Fault]:
    """Print findings that were not printed before, errors last, on a terminal in colour. Return
    them."""
    new = _distinct(part, before)
    for level, colour in LEVELS.items():
        for finding in new:
            if finding.level == level:
                text = Text(clean(finding.with_level()), style=colour)
                Console(file=file).print(text, soft_wrap=True)
    return new


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


def _say_unseen(findings: list[Fault]):
    """Say in one line what the Hub has, and could not be looked at."""
    names = []
    for finding in findings:
        if finding.unseen:
            names.append(finding.message.partition("not seen: ")[2].partition(": ")[0])
    if names:
        say(
            f"hint: the Hub is not reached, and not seen: {', '.join(dict.fromkeys(names))}: `hf"
            " download` them where it is, or name folders (data.dir, model.name_or_path)"
        )


def _conclude(findings: list[Fault]):
    """Say whether the recipe is ready, and where not; exit with code 2 if it is not."""
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        verdict = f"not ready: {len(errors)} to change"
        places = dict.fromkeys(str(finding.place) for finding in errors if finding.place)
        if places:
            verdict += f": {', '.join(places)}"
        say(f"\n{verdict}")
        sys.exit(2)
    verdict = "ready"
    unseen = dict.fromkeys(finding.unseen for finding in findings if finding.unseen)
    if unseen:
        verdict += f" but for what was not seen: {', '.join(unseen)}"
    if any(finding.level == "warning" for finding in findings):
        verdict += ", with the warnings above"
    say(f"\n{verdict}")
