"""What every stage that trains does in the same way: it refuses mistakes in a fixed order, finds
the run's folder, trains, and returns the finished run, of which `conclude` makes pages. Each stage
adds a generator, which builds a trainer and yields it, continues once it has trained, and yields
what to report.

trl and its dependencies take seconds to import, so they are imported after the last check that
needs none of them. A stage's generator therefore does its own imports.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.terminal import is_main_process, make_command, make_line, quiet_libraries, say
from evaluation.check import require_machine
from machine.launch import device_line, is_launched, this_machine, to_machine
from runs.identity import find_run, warm_start_of
from runs.state import RunState
from runs.writing import begin, finish
from schema.settings import Recipe, require_values, training_config
from schema.stages import STAGES, Stage, chain
from schema.values import REMOTE_TRACKERS
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
        data: see `runs.identity.data_of`.
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


def train_stage(
    name: str, recipe: Recipe, steps: Callable[[Start], Iterator[Training | Trained]]
) -> RunState:
    """Train a stage of a recipe in its folder, unless it is finished, and return its run.

    Args:
        steps: the stage's generator, which yields a `Training` and then a `Trained`.

    Raises:
        RecipeError: something must be changed first. RunStopped: the training ended before its end.
    """
    stage = STAGES[name]
    dtype = recipe.model.dtype
    recipe = to_machine(recipe)
    require_machine(recipe, (name,))
    warm_start = warm_start_of(recipe) if stage.warm_start else None
    run = find_run(recipe, name, to_train=True)
    if run.finished:
        _say_finished(name, run)
        return run
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
    start = Start(recipe, run, args, tokenizer, rows, validation, data, warm_start)
    stage_steps = steps(start)
    training = next(stage_steps)
    run = _train(stage, start, training, interrupts)
    trained = next(stage_steps)
    for line in trained.lines:
        say(f"{name}: {line}")
    summary = {"steps": training.trainer.state.global_step, "seconds": time.monotonic() - began}
    return finish(run, summary | trained.summary, training.trainer.state.log_history)


def conclude(run: RunState, recipe: Recipe) -> dict[str, Any]:
    """Write a finished run's pages, unless they are there, and print where it is and the next
    command, unless a chain of `make` runs that. Return the run's summary."""
    stage = STAGES[run.folder.name]
    if is_main_process() and (run.logged is not None or not (run.folder / "report.md").is_file()):
        _write_pages(stage, run)
    if run.logged is None:
        return run.summary
    say(f"{stage.name}: done, in {run.folder} (contents: docs/run.md)")
    if not chain():
        say(f"next: {make_command('evaluate' if stage.warm_start else 'grpo', recipe)}")
        if stage.samples:
            say(f"next: {make_line('view', RUN=[recipe.output_dir])}")
    return run.summary


def _write_pages(stage: Stage, run: RunState):
    """Write a finished run's report and its page, and say where they are."""
    from evaluation import run_pages
    from viewer.page import write_beside

    report = run_pages.write(run)
    if stage.samples:
        say(f"{stage.name}: report in {report}")
    page = write_beside(run)
    if page:
        say(f"{stage.name}: page in {page}, for any browser")


def _say_finished(name: str, run: RunState):
    """Say that a run is finished, and why if it stopped early."""
    say(f"{name}: finished already, in {run.folder}")
    if "stopped" in run.summary:
        say(run.summary["stopped"])


def _say_trackers(name: str, recipe: Recipe):
    """Name the services on the network to which a run is sent."""
    services = [tracker for tracker in recipe.trackers(name) if tracker in REMOTE_TRACKERS]
    if services:
        say(f"{name}: this run is sent to {' and '.join(services)}")


def _train(stage: Stage, start: Start, training: Training, interrupts: "Interrupts") -> RunState:
    """Train from the newest checkpoint, the warm start or the base model, and return the run."""
    from training.model import base_model
    from training.train import require_known_head, train
    from viewer.callback import WritePage

    trainer = training.trainer
    require_known_head(trainer, base_model(start.recipe))
    run = start.run
    if is_main_process():
        run = begin(run, start.recipe, training.rows, training.sampled, start.data)
    source = run.checkpoint or start.warm_start or "the base model"
    say(f"{stage.name}: {training.examples}, from {source}")
    train(trainer, run, start.recipe, interrupts, stage.name, WritePage(run))
    return run
