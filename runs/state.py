"""What a run's folder holds, read once: a new run, an unfinished or a finished one. Whether it is
the recipe's run says runs/identity.py; runs/writing.py writes it. docs/run.md describes its files.
"""

import json
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from console.faults import RecipeError
from data.json_files import parsed
from runs.checkpoints import altered, altered_weights, checkpoints_of, newest_good
from runs.records import public_path, read_metrics, renamed
from schema import configs
from schema.configs import SAMPLED_AT_ONCE, STEP
from schema.recipe import Recipe, load_recipe
from schema.settings import usual
from schema.stages import STAGES
from schema.text import Unreadable, saved


@dataclass(frozen=True)
class RunState:
    """What the folder of a stage that trains holds.

    Attributes:
        checkpoints: their folders, the newest first, whole or not.
        recipe: as the run saved it. This and the others are empty where nothing wrote them.
        versions: what it was made with (runs/versions.py).
        data: its training problems, by their number and fingerprints.
        summary: what it came to. It is written last, and so empty where the run is unfinished.
    """

    folder: Path
    checkpoints: list[Path] = field(default_factory=list)
    recipe: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    summary: dict = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "RunState":
        """Read a stage's folder, which need not exist.

        Raises:
            RecipeError: a file in it is not what a run wrote, or the run is of an earlier version
                whose figures would pass for those of this one.
        """
        checkpoints = checkpoints_of(folder)
        summary = read_ours(folder / "summary.json")
        recipe = _read_recipe(folder, is_needed=bool(checkpoints or summary))
        versions = read_ours(folder / "versions.json")
        data = read_ours(folder / "data.json")
        return cls(folder, checkpoints, recipe, versions, data, summary)

    @property
    def is_new(self) -> bool:
        """Whether nothing is left of a training. An earlier start may have written all else."""
        return not self.checkpoints and not self.finished

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return bool(self.summary)

    @cached_property
    def checkpoint(self) -> str | None:
        """The newest checkpoint without damage of an unfinished run, from which it goes on."""
        return None if self.finished else newest_good(self.folder)

    @cached_property
    def metrics(self) -> list[dict]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.folder)

    @property
    def problems(self) -> int | None:
        """The number of problems that it trained on; None where data.json was lost."""
        return self.data.get("problems")

    @property
    def public_path(self) -> Path:
        """The folder's path as a card may name it: see `records.public_path`."""
        return public_path(self.folder.absolute())

    def section(self, name: str) -> dict:
        """A section of its recipe; empty if the recipe lacks it."""
        return self.recipe.get(name) or {}

    def completions_until(self, step: int) -> int:
        """How many completions it had sampled after so many steps. If an epoch ends inside an
        update, trl makes a shorter update, and the number is a batch too low for every such
        epoch."""
        grpo = self.section("grpo")
        sampled = grpo[SAMPLED_AT_ONCE]
        trained = step * grpo[STEP["grpo"]]
        return sampled * math.ceil(trained / (sampled * grpo["num_iterations"]))

    def require_weights(self, command: str):
        """Refuse a finished run whose weights are gone, or are not those that it saved.

        Args:
            command: the command that trains the run.

        Raises:
            RecipeError: names the checkpoints that remain, and what to do.
        """
        fault = altered_weights(self.folder, self.summary.get("weights"))
        if fault is None:
            return
        remedy = f"delete {self.folder}, and `{command}` trains it again"
        remaining = [path.name for path in self.checkpoints if not altered(path)]
        if remaining:
            remedy = f"delete {self.folder}/summary.json, and `{command}` goes on from its last"
            remedy += f" checkpoint ({', '.join(remaining)})"
        raise RecipeError([f"{self.folder} is finished, but {fault}: put it back, or {remedy}"])


def read_ours(file: Path) -> dict:
    """The object in a JSON file that a run wrote; empty where there is no such file.

    Raises:
        RecipeError: it is not what a run wrote.
    """
    try:
        value = parsed(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        reason = str(error)
    else:
        if isinstance(value, dict):
            return renamed(value)
        reason = "it holds no object"
    raise RecipeError(
        [f"{file} is not what a run wrote ({reason:.200}): put it back, or delete it"]
    )


def _read_recipe(folder: Path, is_needed: bool) -> dict:
    """The recipe that a run saved, in the form in which this version saves it: runs of earlier ones
    have `data.order: shuffled`, as every run is now. Empty where there is none and it is not
    needed.

    Raises:
        RecipeError: it is not what a run wrote, or RLOO trained the run, whose figures would pass
            for GRPO's.
    """
    file = folder / "recipe.yaml"
    if not is_needed and not file.is_file():
        return {}
    try:
        recipe = renamed(saved(file))
    except Unreadable as error:
        message = (
            f"{file} is not what a run wrote ({error}): put it back, or move {folder} away, or give"
            " this run its own folder (output_dir)"
        )
        raise RecipeError([message]) from None
    data = recipe.get("data") or {}
    if data.get("order") == "shuffled":
        del data["order"]
    algorithm = recipe.get("algorithm")
    if folder.name != "sft" and algorithm is not None:
        message = (
            f"{folder} was trained with algorithm: {algorithm!s:.20}; the version of the tag"
            " before-the-cuts shows it, and this one takes another folder (output_dir)"
        )
        raise RecipeError([message])
    return filled(recipe)


def filled(recipe: dict) -> dict:
    """A saved recipe as `Recipe.resolved` makes it. An earlier version saved what the recipe set,
    and how it split a batch; and a field that the libraries have had since then has its default."""
    recipe = dict(recipe)
    for name in configs.SECTIONS:
        written = recipe.get(name)
        if written is None:
            continue
        values = usual(name) | written
        if name in STAGES:
            if values.get("eval_steps") and "save_steps" not in written:
                values["save_steps"] = values["eval_steps"]
            batch = {key: written[key] for key in (STEP[name], SAMPLED_AT_ONCE) if key in written}
            values = configs.with_totals(name, values, 1) | batch
        recipe[name] = values
    return recipe


def read_run(folder: Path) -> RunState:
    """The finished run in a folder. Raises RecipeError where there is none, or a file is not what a
    run wrote."""
    run = RunState.read(folder)
    if not run.finished:
        raise RecipeError([f"{folder} holds no finished run"])
    return run


def recipe_of(run: Path) -> Recipe:
    """The recipe of the run in a stage's folder, with that folder's present place as its
    output_dir.

    Raises:
        RecipeError: the saved recipe is not one, or names what a recipe may not.
    """
    folder = str(run.parent)
    # YAML reads a plain path as it stands. Any other is quoted, without escapes: YAML reads no
    # surrogates.
    if not re.fullmatch(r"[\w.-]*(/[\w.-]+)+", folder, re.ASCII):
        folder = json.dumps(folder, ensure_ascii=False)
    # Its model is asked where it is, as when the run began; nothing of it is sent anywhere.
    place = [f"output_dir={folder}"]
    return load_recipe(run / "recipe.yaml", place, check=(), reads_anywhere=True)
