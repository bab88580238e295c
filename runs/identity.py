"""What may change where a run goes on: settings that change nothing that is learned, and the number
of its steps; and hashes of what its recipe only names, by which other files are noticed."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from console.faults import Fault
from console.terminal import make_command
from data.identity import fingerprint
from data.json_files import read_object
from data.problems import judged_by
from machine.launch import this_machine, to_machine
from runs.checkpoints import checkpoints_of, has_training, step_of
from runs.records import read_recipe, section
from schema.configs import (
    FREE_KEYS,
    SAMPLED_AT_ONCE,
    SECTIONS,
    SPLIT,
    STEADY,
    STEP,
    without_place,
)
from schema.sections import flat
from schema.settings import Recipe, precision, without_usual
from schema.stages import STAGES, chain
from schema.text import Unreadable


def learned(settings: dict) -> dict:
    """Flat settings without those that change nothing that a stage learns."""
    learned = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        is_free = section in STAGES and name in FREE_KEYS
        # With held-out problems, the checkpoint that is best of those saved is kept.
        if name == "save_steps" and f"{section}.eval_steps" in settings:
            is_free = False
        if not is_free and not (section == "rewards" and name.endswith(".timeout")):
            learned[key] = value
    return learned


def why_not_longer(recipe: Recipe, stage: str) -> str | None:
    """Why the run in a stage's folder does not go on to the recipe's `max_steps`; None where it
    does, and ends as a run of that length."""
    settings = recipe.settings[stage]
    steps = settings["max_steps"]
    schedule = settings["lr_scheduler_type"]
    is_share = 0 < (settings["warmup_steps"] or 0) < 1 and schedule != "constant"
    if schedule not in STEADY or is_share:
        reason = f"lr_scheduler_type {schedule} is over"
        if is_share:
            reason = "warmup_steps is a share of"
        return f"{reason} all max_steps, so its steps were others: it cannot be trained on."
    path = recipe.stage_dir(stage)
    cycle = recipe.settings.cycle(stage)
    last = next(map(step_of, checkpoints_of(path)), steps)
    if last >= steps:
        return f"It was trained that far: only more steps than in {path} can follow."
    if last % cycle:
        return f"Its last step, {last}, is within a generation batch: it cannot be trained on."
    return None


def goes_on(recipe: Recipe, stage: str) -> bool:
    """Whether the recipe has more for a finished run to do: other `max_steps`, or more patience
    than the run was stopped with."""
    path = recipe.stage_dir(stage)
    try:
        before = read_recipe(path / "recipe.yaml")
    except Unreadable:
        return False
    if section(before, stage).get("max_steps") != recipe.settings[stage]["max_steps"]:
        return True
    patience = recipe.evaluate.patience
    waited = (before.get("evaluate") or {}).get("patience")
    is_stopped = "stopped" in (read_object(path / "summary.json") or {})
    return is_stopped and patience != waited and (patience == 0 or patience > (waited or 0))


def conflict(recipe: Recipe, stage: str, to_train: bool = False) -> Fault | None:
    """Find out whether the stage's folder holds a run of another recipe. The fault names the keys
    that differ, and the ways out; None where nothing stands in the way.

    Args:
        to_train: whether the stage is to be trained, and so may go on for more steps.
    """
    path = recipe.stage_dir(stage)
    if not has_training(path):
        return None
    try:
        saved_recipe = read_recipe(path / "recipe.yaml")
    except Unreadable as error:
        message = (
            f"says what the run beside it was trained with, and cannot be read ({error}): put it"
            f" back, or move {path} away, or give this run its own folder (output_dir)"
        )
        return Fault(str(path / "recipe.yaml"), message)
    local = to_machine(recipe)
    resolved = without_place(local.resolved())
    wanted = _learned(local, resolved, saved_recipe, stage)
    trained = _learned(local, saved_recipe, resolved, stage)
    key = f"{stage}.bf16"
    if key in wanted or key in trained:  # or else this machine decides, which need not be asked
        default = precision(this_machine(), local.model.dtype)["bf16"]
        wanted.setdefault(key, default)
        trained.setdefault(key, default)
    keys = sorted(wanted.keys() | trained.keys())
    differing = [key for key in keys if wanted.get(key) != trained.get(key)]
    if not differing:
        return None
    lines = ["a run of another recipe is there:"]
    for key in differing:
        lines.append(f"  {_named(key)}: {trained.get(key)} there, {wanted.get(key)} here")
    if differing == [f"{stage}.max_steps"]:
        reason = why_not_longer(recipe, stage)
        if to_train and reason is None:
            return None
        lines.append(reason or f"Or train it on: {make_command(stage, recipe)}")
    lines.append(f"Give this run its own folder: {_command_elsewhere(recipe, stage)}")
    lines.append("Or copy the recipe under a new name, or move that run away.")
    return Fault(str(path), "\n".join(lines))


def _named(key: str) -> str:
    """A key; beside what stands for a split batch, the keys that a recipe has for it."""
    name = key.partition(".")[2]
    if name in STEP.values():
        return f"{key} ({' × '.join(SPLIT[:2])})"
    if name == SAMPLED_AT_ONCE:
        return f"{key} ({SPLIT[0]} × {SPLIT[2]})"
    return key


def conflicts(recipe: Recipe, stages: Iterable[str]) -> list[Fault]:
    """The faults of the stages' folders that hold a run of another recipe, each reason once."""
    folders = defaultdict(list)
    for stage in stages:
        if getattr(recipe, stage) is None:
            continue
        fault = conflict(recipe, stage, to_train=True)
        if fault:
            folders[fault.message].append(str(fault.place))
    return [Fault(" and ".join(places), message) for message, places in folders.items()]


def _learned(recipe: Recipe, resolved: dict, compared: dict, stage: str) -> dict:
    """By `section.key` the values of a resolved recipe that change what the stage trains. Of a
    library's section that the compared recipe lacks, without its hundred defaults."""
    sections = _dependencies(recipe, resolved, stage)
    for name in SECTIONS:
        if isinstance(sections.get(name), dict) and not section(compared, name):
            sections[name] = without_usual(name, sections[name])
    return learned(flat(sections))


def _dependencies(recipe: Recipe, resolved: dict, stage: str) -> dict:
    """The sections and keys of a resolved recipe, this one or the one that a run of it saved, that
    change what the stage of the recipe trains."""
    sections = {key: resolved.get(key) for key in STAGES[stage].depends_on}
    settings = {}  # what was saved may have any type
    for key in ("data", "grpo", "evaluate"):
        settings[key] = section(resolved, key)
    if stage == "sft":  # it trains on the problems that a probe's pass rates exclude too
        if settings["data"]:
            sections["data"] = settings["data"] | {"pass_rate": None}
        if recipe.data.own_solutions is not None:  # they are cut where GRPO would cut them
            length = settings["grpo"].get("max_completion_length")
            sections["grpo"] = {"max_completion_length": length}
    elif recipe.settings["grpo"]["eval_steps"]:
        problems = settings["evaluate"].get("checkpoint_problems")
        sections["evaluate"] = {"checkpoint_problems": problems}
    return sections


def _command_elsewhere(recipe: Recipe, stage: str) -> str:
    """The user's command with a new output_dir: the recipe's name with the first free number."""
    number = 2
    while Path(f"{recipe.output_dir}-{number}").exists():
        number += 1
    overrides = recipe.asked_for.get("ARGS", ())
    overrides = [word for word in overrides if word.partition("=")[0].strip() != "output_dir"]
    overrides.append(f"output_dir={recipe.output_dir}-{number}")
    arguments = recipe.asked_for | {"ARGS": overrides}
    return make_command(chain() or stage, replace(recipe, asked_for=arguments))


def data_of(train: list[dict], held_out: list[dict]) -> dict[str, str]:
    """The fingerprints of problems to train on and of held-out ones, and a hash of what all of them
    are judged by: the entries of a run's data.json that tell later how the data has changed."""
    judged = sorted(json.dumps(judged_by(row)) for row in (*train, *held_out))
    return {
        "train": " ".join(sorted(map(fingerprint, train))),
        "held_out": " ".join(sorted(map(fingerprint, held_out))),
        "answers": hashlib.sha256("\n".join(judged).encode()).hexdigest(),
    }


def changes(before: dict, now: dict) -> tuple[str, set[str]]:
    """How the data has changed since a run began, in words, and the fingerprints of the problems
    that are held out now and were trained on then.

    Args:
        before, now: see `data_of`. A run of an older version has no such entries: none is compared.
    """
    for key in ("train", "held_out", "answers"):
        if not isinstance(before.get(key), str) or not isinstance(now.get(key), str):
            return "", set()
    trained = set(before["train"].split())
    held_out = set(before["held_out"].split())
    held_out_now = set(now["held_out"].split())
    problems = trained | held_out
    problems_now = held_out_now | set(now["train"].split())
    words = ""
    if problems != problems_now:
        added = len(problems_now - problems)
        words = f"{added:,} problems added, {len(problems - problems_now):,} removed"
    elif before["answers"] != now["answers"]:
        words = "other answers"
    elif held_out != held_out_now:
        words = f"{len(held_out_now):,} problems held out, not {len(held_out):,}"
    return words, held_out_now & trained
