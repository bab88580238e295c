"""What every stage that trains does in the same way: it refuses mistakes in a fixed order, finds
the run's folder, trains, writes the summary and prints the result. Each stage adds a generator,
which builds a trainer and yields it, continues once it has trained, and yields what to report.

trl and its dependencies take seconds to import, so they are imported after the last check that
needs none of them. A stage's generator therefore does its own imports.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.faults import RecipeError
from console.terminal import is_main_process, make_command, make_line, say
from machine.launch import device_line, is_launched, require, this_machine, to_machine
from runs.identity import find_run, not_probed, warm_start_of
from runs.state import RunState
from runs.writing import begin, finish
from schema.libraries import require_values, training_config
from schema.settings import Recipe
from schema.stages import STAGES, Stage, chain
from schema.values import remote_trackers
from stages.cli import quiet_libraries
from training.problem_sets import load_data

if TYPE_CHECKING:
    from training.train import Interrupts


@dataclass(frozen=True)
class Start:
    """The input of a stage's generator.

    Attributes:
        args: the trainer's config.
        rows: the recipe's training problems.
        validation: its validation problems.
        data: see `data.problems.data_of`.
        warm_start: the folder of the warm start, or None if training begins with the base model.
    """

    recipe: Recipe
    run: RunState
    args: Any
    tokenizer: Any
    rows: list[dict]
    validation: list[dict]
    data: dict[str, str]
    warm_start: Path | None


@dataclass(frozen=True)
class Training:
    """What the generator yields first.

    Attributes:
        examples: the number and kind of the training examples, such as `512 problems`.
        rows, sampled: see `runs.writing.begin`.
    """

    trainer: Any
    examples: str
    rows: list[dict]
    sampled: Sequence[list[str]] = ()


@dataclass(frozen=True)
class Trained:
    """What the generator yields after the training, in every process.

    Attributes:
        summary: the stage's entries in `summary.json`.
        lines: messages to print.
    """

    summary: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()


def train_stage(name: str, recipe: Recipe, steps: Callable[[Start], Iterator[Training | Trained]]):
    """Train a stage of a recipe in its folder, or say that it is finished.

    Args:
        steps: the stage's generator, which yields a `Training` and then a `Trained`.

    Raises:
        RecipeError: something must be changed first. RunStopped: the training ended before its end.
    """
    stage = STAGES[name]
    dtype = recipe.model.dtype
    recipe = to_machine(recipe)
    require(recipe, (name,))
    warm_start = _required_runs(recipe, stage)
    run = find_run(recipe, name, to_train=True)
    if run.finished:
        _say_finished(name, run)
        if is_main_process() and not (run.folder / "report.md").is_file():
            _write_pages(stage, run.folder)  # the run was killed before it had
        return
    recipe = replace(recipe, machine=this_machine())
    say(f"{name}: {device_line(recipe, dtype)}")
    _say_trackers(name, recipe)
    quiet_libraries()

    from training.model import load_tokenizer
    from training.train import Interrupts

    require_values(recipe, name, is_launched())
    args = training_config(recipe, name)  # which starts the process group
    interrupts = Interrupts(recipe.settings.cycle(name))
    began = time.monotonic()
    tokenizer = load_tokenizer(recipe)
    rows, validation, data = load_data(recipe)
    _warn_of_golds(rows, recipe)
    start = Start(recipe, run, args, tokenizer, rows, validation, data, warm_start)
    stage_steps = steps(start)
    training = next(stage_steps)
    _train(stage, start, training, interrupts)
    trained = next(stage_steps)
    if is_main_process():
        seconds = time.monotonic() - began
        summary = {"steps": training.trainer.state.global_step, "seconds": seconds}
        summary |= trained.summary
        values = {key: value for key, value in summary.items() if value is not None}
        finish(run.folder, values)
        _write_pages(stage, run.folder)
    place = f"done, in {run.folder} (contents: docs/run.md)"
    _say_end(stage, recipe, [*trained.lines, place])


def _write_pages(stage: Stage, folder: Path):
    """Write a finished run's report and its page, and say where they are."""
    from evaluation import run_pages
    from viewer.page import write_beside

    report = run_pages.write(folder)
    if stage.samples:
        say(f"{stage.name}: report in {report}")
    page = write_beside(folder)
    if page:
        say(f"{stage.name}: page in {page}, for any browser")


def _required_runs(recipe: Recipe, stage: Stage) -> Path | None:
    """The folder of the warm start that a stage begins with, or None. Raises RecipeError where it
    is not finished or belongs to another recipe, and where the recipe needs pass rates that no
    probe has measured."""
    warm_start = None
    if stage.warm_start:
        warm_start = warm_start_of(recipe)
    if stage.samples:
        fault = not_probed(recipe)
        if fault:
            raise RecipeError([fault])
    return warm_start


def _say_finished(name: str, run: RunState):
    """Say that a run is finished, and why if it stopped early."""
    say(f"{name}: finished already, in {run.folder}")
    if "stopped" in run.summary:
        say(run.summary["stopped"])


def _say_trackers(name: str, recipe: Recipe):
    """Name the services on the network to which a run is sent."""
    trackers = remote_trackers(recipe.settings[name]["report_to"])
    if trackers:
        say(f"{name}: this run is sent to {' and '.join(trackers)}")


def _warn_of_golds(rows: list[dict], recipe: Recipe):
    """Say in the first process whether the verifier can judge a sample of the gold answers."""
    from evaluation.golds import description, some_golds

    if is_main_process():
        gradable, ungraded = some_golds(rows, recipe)
        if ungraded:
            say(f"data: {description(gradable, ungraded)}; make audit lists them")


def _train(stage: Stage, start: Start, training: Training, interrupts: "Interrupts"):
    """Train from the newest checkpoint, the warm start or the base model."""
    from training.model import base_model
    from training.train import require_known_head, train
    from viewer.callback import WritePage

    trainer = training.trainer
    run = start.run
    require_known_head(trainer, base_model(start.recipe))
    if is_main_process():
        begin(run, start.recipe, training.rows, training.sampled, start.data)
    source = run.checkpoint or start.warm_start or "the base model"
    say(f"{stage.name}: {training.examples}, from {source}")
    write_page = WritePage(run.folder)
    train(trainer, run, start.recipe, interrupts, stage.name, write_page)


def _say_end(stage: Stage, recipe: Recipe, lines: list[str]):
    """Print a stage's last lines and the next command, unless a chain of `make` runs it."""
    for line in lines:
        say(f"{stage.name}: {line}")
    if chain():
        return
    say(f"next: {make_command('evaluate' if stage.warm_start else 'grpo', recipe)}")
    if stage.samples:
        say(f"next: {make_line('view', RUN=[recipe.output_dir])}")
