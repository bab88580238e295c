"""The frame of every stage that trains: what it refuses, and in which order; the run's folder; the
training; and what is written and said at the end. A stage's own part is a generator. It builds a
trainer and yields it, goes on once that has trained, and yields what is to say of it.

trl and its dependencies take seconds to import. The frame imports them once nothing is left to
refuse, so a stage's own part imports what it needs by itself.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.faults import RecipeError
from console.terminal import is_main_process, make_command, make_line, say
from data.json_files import read_object
from machine import fit
from machine.launch import require
from schema import configs
from schema.recipe import Recipe, require_values
from schema.stages import STAGES, Stage, chain
from schema.values import remote_trackers
from stages.cli import quiet_libraries
from training.machines import require_same, run_facts
from training.problem_sets import load_train
from training.run_folder import (
    RunFolder,
    find_run,
    not_probed,
    problems_digest,
    warm_start_of,
)


@dataclass(frozen=True)
class Start:
    """What a stage's own part is given. `args`: the config of its trainer. `rows`, `held_out`: the
    recipe's problems. `warm_start`: the folder of what it begins with, where that is not the base
    model. `learns_from`: that of a run.
    """

    recipe: Recipe
    folder: RunFolder
    args: Any
    tokenizer: Any
    rows: list[dict]
    held_out: list[dict]
    warm_start: Path | None
    learns_from: Path | None


@dataclass(frozen=True)
class Training:
    """What it first yields. `learns`: of how much of what, in words. `rows`, `sampled`: see
    `RunFolder.begin`."""

    trainer: Any
    learns: str
    rows: list[dict]
    sampled: Sequence[list[str]] = ()


@dataclass(frozen=True)
class Trained:
    """What it then yields, in every process. `summary`: what it adds to `summary.json`. `lines`: to
    say."""

    summary: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()


def train_stage(name: str, recipe: Recipe, own: Callable[[Start], Iterator[Training | Trained]]):
    """Train a stage of a recipe in its folder, or say that it is finished.

    Raises:
        RecipeError: something must be changed first. RunStopped: the training ended before its end.
    """
    stage = STAGES[name]
    asked, recipe = recipe.model.dtype, fit.to_machine(recipe)
    require(recipe, (name,))
    warm_start, learns_from = _begins_with(recipe, stage)
    folder = find_run(recipe, name, to_train=True)
    if folder.finished:
        say(f"{name}: finished already, in {folder.path}")
        if stopped := (read_object(folder.path / "summary.json") or {}).get("stopped"):
            say(str(stopped)[:1000])
        return
    say(f"{name}: {fit.device_line(recipe, asked)}")
    if sent := remote_trackers(configs.setting(recipe, name, "report_to")):
        say(f"{name}: this run is sent to {' and '.join(sent)}")
    quiet_libraries()

    from evaluation import run_pages
    from evaluation.audit import some_golds
    from training.model import base_model, load_tokenizer
    from training.saving import FiniteNumbers
    from training.train import Interrupts, require_known_head, train

    require_values(recipe, name)
    args = configs.training_config(recipe, name)  # which starts the process group
    require_same(run_facts(folder))
    interrupts = Interrupts(configs.generation(recipe.grpo).whole if stage.samples else 1)
    began = time.monotonic()
    tokenizer, (rows, held_out) = load_tokenizer(recipe), load_train(recipe)
    require_same(problems_digest(rows))
    if is_main_process() and (wrong := some_golds(rows, recipe)[2]):
        say(f"data: {wrong}: make audit lists them")
    part = own(Start(recipe, folder, args, tokenizer, rows, held_out, warm_start, learns_from))
    if (training := next(part, None)) is None:  # it took another run's place
        return
    require_known_head(training.trainer, base_model(recipe))
    if is_main_process():
        folder.begin(training.rows, training.sampled)
    say(f"{name}: {training.learns}, from {folder.checkpoint or warm_start or 'the base model'}")
    if (
        not stage.samples
    ):  # where completions are sampled, it also sees the prompts: training/trainer.py
        training.trainer.add_callback(FiniteNumbers())
    train(training.trainer, folder, recipe, interrupts, name)
    trained = next(part)
    if is_main_process():
        summary = {
            "steps": training.trainer.state.global_step,
            "seconds": time.monotonic() - began,
        } | trained.summary
        folder.finish({key: value for key, value in summary.items() if value is not None})
        written = run_pages.write(folder.path)
        if stage.samples:
            say(f"{name}: report in {written}")
    for line in trained.lines:
        say(f"{name}: {line}")
    say(f"{name}: done, in {folder.path} (contents: docs/run-folder.md)")
    if not chain():
        say(f"next: {make_command('evaluate' if stage.warm_start else 'grpo', recipe)}")
        if stage.samples:
            say(f"next: {make_line('view', RUN=[recipe.output_dir])}")


def _begins_with(recipe: Recipe, stage: Stage) -> tuple[Path | None, Path | None]:
    """The folders of the warm start and of the run that a stage learns from, where it has them.

    Raises:
        RecipeError: one is not finished, or not of this recipe; or a probe has to be, before it
            samples.
    """
    warm_start = warm_start_of(recipe) if stage.warm_start else None
    if stage.samples and (wrong := not_probed(recipe)):
        raise RecipeError([wrong])
    if stage.learns_from is None:
        return warm_start, None
    run = find_run(recipe, stage.learns_from)
    if not run.finished:
        what = (
            f"the {STAGES[stage.learns_from].made} run in {run.path}, whose completions are"
            " compared"
        )
        raise RecipeError([f"{what}, is not finished: {make_command(stage.learns_from, recipe)}"])
    return warm_start, run.path
