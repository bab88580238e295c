"""What may change where a run goes on: settings that change nothing that is learned, and the number
of its steps; and hashes of what its recipe only names, by which other files are noticed."""

import hashlib
import json
from pathlib import Path

from data.imports import files_run
from data.json_files import read_object
from data.problems import for_rewards
from runs.checkpoints import (
    BASE,
    WARM_START,
    checkpoints_of,
    hash_of_files,
    hash_of_model,
    step_of,
)
from schema import configs
from schema.names import is_reward_model, reward_function
from schema.recipe import Recipe
from schema.stages import STAGES
from schema.text import Unreadable, saved


def learned(settings: dict) -> dict:
    """Flat settings without those that change nothing that a stage learns."""
    learned = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        is_free = section in STAGES and name in configs.FREE_KEYS
        # With held-out problems, the checkpoint that is best of those saved is kept.
        if name == "save_steps" and f"{section}.eval_steps" in settings:
            is_free = False
        if not is_free and not (section == "rewards" and name.endswith(".timeout")):
            learned[key] = value
    return learned


def with_defaults(recipe: dict, compared: dict) -> dict:
    """Add the default, ours or the library's, of every key that only the compared recipe sets, in a
    section that both have. Both recipes are flat."""
    sections = {key.partition(".")[0] for key in recipe if "." in key}
    added = {}
    for key in compared.keys() - recipe.keys():
        section, _, name = key.partition(".")
        if section not in configs.SECTIONS or section not in sections:
            continue
        defaults = configs.defaults(section)
        if section in STAGES:
            defaults |= configs.precision(recipe.get("model.dtype"))
            defaults |= configs.shared_defaults(section)
        added[key] = defaults.get(name)
    return recipe | added


def why_not_longer(recipe: Recipe, stage: str) -> str | None:
    """Why the run in a stage's folder does not go on to the recipe's `max_steps`; None where it
    does, and ends as a run of that length."""
    settings = configs.settings(recipe, stage)
    steps = settings["max_steps"]
    schedule = settings["lr_scheduler_type"]
    is_share = 0 < (settings["warmup_steps"] or 0) < 1 and schedule != "constant"
    if schedule not in configs.STEADY or is_share:
        reason = f"lr_scheduler_type {schedule} is over"
        if is_share:
            reason = "warmup_steps is a share of"
        return f"{reason} all max_steps, so its steps were others: it cannot be trained on."
    path = recipe.stage_dir(stage)
    cycle = configs.cycle_of(recipe, stage)
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
        before = saved(path / "recipe.yaml")
    except Unreadable:
        return False
    if (before.get(stage) or {}).get("max_steps") != getattr(recipe, stage).get("max_steps"):
        return True
    patience = recipe.evaluate.patience
    waited = (before.get("evaluate") or {}).get("patience")
    is_stopped = "stopped" in (read_object(path / "summary.json") or {})
    return is_stopped and patience != waited and (patience == 0 or patience > (waited or 0))


def sources_of(recipe: dict, folder: Path, rows: list[dict]) -> dict[str, str]:
    """The hashes of the rewards' code, of the models that a run begins from, and of the columns of
    the data beside what is asked and what answers are judged by.

    Args:
        recipe: with all our defaults, as a run saves it.
        folder: the run's.
        rows: the training problems.
    """
    stage = folder.name
    samples = STAGES[stage].samples
    columns = []
    rewards = {}
    if samples:
        rows = map(for_rewards, rows)
        rewards = recipe["rewards"]
    for row in rows:  # the order of a file's columns changes nothing
        columns.append(sorted(row.items()))
    text = json.dumps(columns, skipkeys=True, default=lambda value: type(value).__name__)
    hashes = {"columns of data.train": hashlib.sha256(text.encode()).hexdigest()}
    models = {BASE: recipe["model"]["name_or_path"]}
    if STAGES[stage].warm_start and recipe.get("sft") is not None:
        models[WARM_START] = folder.with_name("sft")
    for name in rewards:
        if is_reward_model(name):
            models[f"rewards.{name}"] = name
        else:
            files = files_run(reward_function(name).__module__)
            hashes[f"rewards.{name}"] = hash_of_files(files)
    for key, model in models.items():
        if model and Path(model).is_dir():
            hashes[key] = hash_of_model(Path(model))
    return hashes
