"""Same or other: whether the run in a stage's folder is the one that a recipe asks for, and may go
on. What teaches it must be the same; what it is shown on, or how its batch is split, may differ."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from console.faults import Fault, RecipeError
from console.terminal import is_main_process, make_command
from data.identity import fingerprint
from data.problems import judged_by
from machine.launch import this_machine, to_machine
from runs.files import hash_of_model, lock, read_object, weights_hash
from runs.state import RunState, has_training, read_ours, step_of
from schema.configs import (
    FREE_KEYS,
    SAMPLED_AT_ONCE,
    SECTIONS,
    SPLIT,
    STEADY,
    STEP,
    flat,
    without_place,
)
from schema.settings import Recipe, precision, without_usual
from schema.stages import STAGES, chain, finished

# The models that a run begins from, among the sources in its versions.json.
BASE = "weights of model.name_or_path"
WARM_START = "weights of the warm start"
TEACHER = "weights of the teacher"
# In a merged model's folder, the hashes of the trained policy's weights.
MERGED_FROM = "merged_from.json"
# The pass rates that a probe has measured: see evaluation/sample.py.
PASS_RATES = "pass_rates.jsonl"


def find_run(recipe: Recipe, stage: str, to_train: bool = False) -> RunState:
    """The run of a recipe's stage, as far as it has come.

    Args:
        to_train: lock its folder, unless it is finished. One that is to be trained longer is
            unfinished.

    Raises:
        RecipeError: another process trains in the folder, or it holds a run of another recipe or
            warm start, or its weights are no longer those that it wrote; the message names what
            differs and the ways out.
    """
    folder = recipe.stage_dir(stage)
    if to_train and is_main_process() and not finished(folder):
        lock(folder)
    run = RunState.read(folder)
    goes_further = to_train and run.finished and _goes_further(recipe, run)
    if goes_further:
        _require_no_successor(recipe, stage)
        if is_main_process():
            lock(folder)
    fault = conflict(recipe, run, to_train)
    if fault:
        raise RecipeError([fault])
    if goes_further:
        run = replace(run, summary={})
        if run.checkpoint is None:
            raise RecipeError([f"{folder} has no checkpoint to go on from: change the recipe back"])
    if run.finished:
        run.require_weights(make_command(stage, recipe))
    _require_its_warm_start(run)
    return run


def _goes_further(recipe: Recipe, run: RunState) -> bool:
    """Whether the recipe has more for a finished run to do: other `max_steps`, or more patience
    than the run was stopped with."""
    stage = run.folder.name
    if run.section(stage).get("max_steps") != recipe.settings[stage]["max_steps"]:
        return True
    patience = recipe.evaluate.patience
    waited = run.section("evaluate").get("patience")
    is_longer = patience != waited and (patience == 0 or patience > (waited or 0))
    return is_longer and "stopped" in run.summary


def _require_no_successor(recipe: Recipe, stage: str):
    """Refuse to train a warm start on in its folder once another stage began from it, whose start
    would be lost. Raises RecipeError with the ways out."""
    path = recipe.stage_dir(stage)
    for successor, description in STAGES.items():
        folder = recipe.stage_dir(successor)
        if stage == "sft" and description.warm_start and has_training(folder):
            command = command_elsewhere(recipe, chain() or stage)
            message = (
                f"{folder} began from the warm start in {path}, which would be another one: give"
                f" the longer one its own folder: {command}. Or move {folder} away"
            )
            raise RecipeError([message])


def _require_its_warm_start(run: RunState):
    """Refuse a run that began from another warm start than the one beside it."""
    warm_start = run.folder.with_name("sft")
    expected = run.versions.get("sources", {}).get(WARM_START)
    if expected and finished(warm_start) and hash_of_model(warm_start) != expected:
        message = f"{run.folder} did not begin from the warm start that is in {warm_start} now"
        raise RecipeError([f"{message}: move one of them away, or train {run.folder} anew"])


def warm_start_of(recipe: Recipe) -> Path | None:
    """The folder of the finished warm start that GRPO begins with; None where the recipe has none.

    Raises:
        RecipeError: it is not finished, or is one of another recipe.
    """
    if recipe.sft is None:
        return None
    run = find_run(recipe, "sft")
    if not run.finished:
        command = make_command("sft", recipe)
        message = f"the warm start in {run.folder} is not finished: run `{command}` first"
        raise RecipeError([message])
    return run.folder


def require_merged_from(trained: Path, merged: Path):
    """Refuse a merged model that was made from other weights than a run's folder has now: the run
    was trained on, or anew. Raises RecipeError with the ways out."""
    if read_ours(merged / MERGED_FROM) != {"weights": weights_hash(trained)}:
        message = f"{merged} was not made from the policy that is in {trained} now"
        advice = "delete it, and `make merge` merges that one; or move it to another folder"
        raise RecipeError([f"{message}: {advice}"])


def not_probed(recipe: Recipe) -> list[Fault]:
    """The fault where a recipe asks for pass rates that no finished probe has measured, and GRPO is
    yet to use them."""
    if recipe.data.pass_rate is None or finished(recipe.stage_dir("grpo")):
        return []
    if (recipe.stage_dir("probe") / PASS_RATES).is_file():
        return []
    commands = make_command("probe", recipe)
    if recipe.sft is not None and not finished(recipe.stage_dir("sft")):
        commands = f"{make_command('sft', recipe)} && {commands}"
    message = f"data.pass_rate needs the pass rates of a finished probe: {commands}"
    return [Fault(recipe.place("data", "pass_rate"), message)]


def conflicts(recipe: Recipe, stages: Iterable[str]) -> list[Fault]:
    """The faults of the stages' folders that hold a run of another recipe, each reason once."""
    folders: dict[str, list[str]] = {}
    for stage in stages:
        if getattr(recipe, stage) is None:
            continue
        try:
            fault = conflict(recipe, RunState.read(recipe.stage_dir(stage)), to_train=True)
        except RecipeError as error:
            [fault] = error.faults
        if fault:
            folders.setdefault(fault.message, []).append(str(fault.place))
    return [Fault(" and ".join(places), message) for message, places in folders.items()]


def conflict(recipe: Recipe, run: RunState, to_train: bool = False) -> Fault | None:
    """Find out whether a stage's folder holds a run of another recipe. The fault names the keys
    that differ, and the ways out; None where nothing stands in the way.

    Args:
        to_train: whether the stage is to be trained, and so may go on for more steps.
    """
    lines_by_key = differences(recipe, run)
    if not lines_by_key:
        return None
    stage = run.folder.name
    lines = ["a run of another recipe is there:", *lines_by_key.values()]
    if list(lines_by_key) == [f"{stage}.max_steps"]:
        reason = _why_not_longer(recipe, run)
        if to_train and reason is None:
            return None
        lines.append(reason or f"Or train it on: {make_command(stage, recipe)}")
    command = command_elsewhere(recipe, chain() or stage)
    lines.append(f"Give this run its own folder: {command}")
    lines.append("Or copy the recipe under a new name, or move that run away.")
    return Fault(str(run.folder), "\n".join(lines))


def differences(recipe: Recipe, run: RunState) -> dict[str, str]:
    """A line for each key, by its name, in which a recipe would train a stage otherwise than the
    run in its folder was trained. Empty for a new run."""
    if run.is_new:
        return {}
    stage = run.folder.name
    local = to_machine(recipe)
    resolved = without_place(local.resolved())
    wanted = _learned(local, resolved, run.recipe, stage)
    trained = _learned(local, run.recipe, resolved, stage)
    key = f"{stage}.bf16"
    if key in wanted or key in trained:  # or else this machine decides, which need not be asked
        default = precision(this_machine(), local.model.dtype)["bf16"]
        wanted.setdefault(key, default)
        trained.setdefault(key, default)
    lines = {}
    for key in sorted(wanted.keys() | trained.keys()):
        if wanted.get(key) != trained.get(key):
            lines[key] = f"  {_named(key)}: {trained.get(key)} there, {wanted.get(key)} here"
    return lines


def _why_not_longer(recipe: Recipe, run: RunState) -> str | None:
    """Why a run does not go on to the recipe's `max_steps`; None where it does, and ends as a run
    of that length."""
    stage = run.folder.name
    settings = recipe.settings[stage]
    steps = settings["max_steps"]
    schedule = settings["lr_scheduler_type"]
    is_share = 0 < (settings["warmup_steps"] or 0) < 1 and schedule != "constant"
    if schedule not in STEADY or is_share:
        reason = f"lr_scheduler_type {schedule} is over"
        if is_share:
            reason = "warmup_steps is a share of"
        return f"{reason} all max_steps, so its steps were others: it cannot be trained on."
    cycle = recipe.settings.cycle(stage)
    last = next(map(step_of, run.checkpoints), steps)
    if last >= steps:
        return f"It was trained that far: only more steps than in {run.folder} can follow."
    if last % cycle:
        return f"Its last step, {last}, is within a generation batch: it cannot be trained on."
    return None


def learned(settings: dict) -> dict:
    """Flat settings without those that change nothing that a stage learns."""
    learned = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        is_free = section in STAGES and name in FREE_KEYS
        # Where validation problems choose it, the best of the checkpoints that are saved is kept.
        chooses = settings.get("evaluate.checkpoint_problems") != 0
        if name == "save_steps" and f"{section}.eval_steps" in settings and chooses:
            is_free = False
        if not is_free and not (section == "rewards" and name.endswith(".timeout")):
            learned[key] = value
    return learned


def _named(key: str) -> str:
    """A key; beside what stands for a split batch, the keys that a recipe has for it."""
    name = key.partition(".")[2]
    if name in STEP.values():
        return f"{key} ({' × '.join(SPLIT[:2])})"
    if name == SAMPLED_AT_ONCE:
        return f"{key} ({SPLIT[0]} × {SPLIT[2]})"
    return key


def _learned(recipe: Recipe, resolved: dict, compared: dict, stage: str) -> dict:
    """By `section.key` the values of a resolved recipe that change what the stage trains. Of a
    library's section that the compared recipe lacks, without its hundred defaults."""
    sections = _dependencies(recipe, resolved, stage)
    for name in SECTIONS:
        if isinstance(sections.get(name), dict) and not compared.get(name):
            sections[name] = without_usual(name, sections[name])
    return learned(flat(sections))


def _dependencies(recipe: Recipe, resolved: dict, stage: str) -> dict:
    """The sections and keys of a resolved recipe, this one or the one that a run of it saved, that
    change what the stage of the recipe trains."""
    sections = {key: resolved.get(key) for key in STAGES[stage].depends_on}
    if stage != "grpo":  # it trains on the problems that a probe's pass rates exclude too
        sections["data"] = resolved["data"] | {"pass_rate": None, "dynamic_sampling": None}
        # Completions that it learns from are cut where GRPO would cut them.
        if stage == "distill" or recipe.data.rejection_sampling is not None:
            length = (resolved.get("grpo") or {}).get("max_completion_length")
            sections["grpo"] = {"max_completion_length": length}
    elif recipe.settings["grpo"]["eval_steps"]:
        problems = resolved["evaluate"].get("checkpoint_problems")
        sections["evaluate"] = {"checkpoint_problems": problems}
    return sections


def command_elsewhere(recipe: Recipe, target: str) -> str:
    """The user's command with a new output_dir: the recipe's name with the first free number."""
    number = 2
    while Path(f"{recipe.output_dir}-{number}").exists():
        number += 1
    overrides = recipe.asked_for.get("ARGS", ())
    overrides = [word for word in overrides if word.partition("=")[0].strip() != "output_dir"]
    overrides.append(f"output_dir={recipe.output_dir}-{number}")
    arguments = recipe.asked_for | {"ARGS": overrides}
    return make_command(target, replace(recipe, asked_for=arguments))


def data_of(train: list[dict], validation: list[dict]) -> dict[str, str]:
    """The fingerprints of training and of validation problems, and a hash of what all of them are
    judged by: the entries of a run's data.json that tell later how the data has changed."""
    judged = sorted(json.dumps(judged_by(row)) for row in (*train, *validation))
    return {
        "train": " ".join(sorted(map(fingerprint, train))),
        "validation": " ".join(sorted(map(fingerprint, validation))),
        "answers": hashlib.sha256("\n".join(judged).encode()).hexdigest(),
    }


def changes(before: dict, now: dict) -> tuple[str, set[str]]:
    """How the data has changed since a run began, in words, and the fingerprints of the problems
    that are held out now and were trained on then.

    Args:
        before, now: see `data_of`. A run of an older version has no such entries: none is compared.
    """
    if "answers" not in before or "answers" not in now:
        return "", set()
    trained = set(before["train"].split())
    validation = set(before["validation"].split())
    validation_now = set(now["validation"].split())
    problems = trained | validation
    problems_now = validation_now | set(now["train"].split())
    words = ""
    if problems != problems_now:
        added = len(problems_now - problems)
        words = f"{added:,} problems added, {len(problems - problems_now):,} removed"
    elif before["answers"] != now["answers"]:
        words = "other answers"
    elif validation != validation_now:
        words = f"{len(validation_now):,} problems held out, not {len(validation):,}"
    return words, validation_now & trained


def model_when_trained(folder: Path, name: str) -> str | None:
    """The hash of a model that the run of a stage's or a checkpoint's folder began from: BASE or
    WARM_START. None where that run recorded none."""
    for run in (folder, folder.parent):
        sources = (read_object(run / "versions.json") or {}).get("sources")
        if isinstance(sources, dict):
            return sources.get(name)
    return None
