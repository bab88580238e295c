"""The folder of one run: started new, resumed, or already finished; never overwritten.

recipe.yaml     what this stage depends on, resolved        metrics.jsonl   a line a logging step
versions.json   packages, commit, hardware, seed            summary.json    written last: its presence means finished
data.json       how many problems, and a hash of them
"""

import hashlib
import json
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ruamel.yaml import YAML
from transformers.trainer_utils import get_last_checkpoint

from stages.recipe import Recipe, RecipeError

# What a stage's result depends on. The evaluation is not here: judging more problems does not make another run, unless
# the problems it drops from the training set are others, which data.json tells.
DEPENDS_ON = {
    "sft": ("seed", "model", "adapter", "quantization", "data", "prompt", "sft"),
    "grpo": ("seed", "model", "adapter", "quantization", "data", "prompt", "sft", "rewards", "grpo"),
}
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify")


@dataclass(frozen=True)
class RunFolder:
    path: Path
    finished: bool
    checkpoint: str | None
    recipe: dict
    seed: int

    def begin(self, rows: list[dict]):
        """Write what the run depends on, once all that can fail for a user's mistake is behind: a folder made before
        would stand in the way of the mended recipe.

        Raises:
            RecipeError: a run is resumed with other training problems than it began with.
        """
        text = json.dumps([[row["problem"], row["solution"]] for row in rows])
        data = {"problems": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}
        file = self.path / "data.json"
        if file.is_file() and (before := json.loads(file.read_text(encoding="utf-8"))) != data:
            raise RecipeError(
                [
                    f"{self.path} was begun with {before['problems']:,} other training problems than these "
                    f"{len(rows):,}: the data changed, or evaluate.benchmarks, which drop those they ask too. "
                    f"Change them back, or delete {self.path}"
                ]
            )
        if not (self.path / "recipe.yaml").is_file():
            self.path.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(data) + "\n", encoding="utf-8")
            (self.path / "versions.json").write_text(
                json.dumps(_versions(self.seed), indent=2) + "\n", encoding="utf-8"
            )
            with (self.path / "recipe.yaml").open("w", encoding="utf-8") as file:
                YAML().dump(self.recipe, file)

    def finish(self, summary: dict):
        """Mark the run finished. Written to the side and renamed, so that a half-written summary is never one."""
        partial = self.path / "summary.json.partial"
        partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        partial.rename(self.path / "summary.json")


def find_run(recipe: Recipe, stage: str) -> RunFolder:
    """The run folder of a recipe's stage, as found.

    Raises:
        RecipeError: the folder holds a run of another recipe; the message names the keys that differ and the ways out.
    """
    path = recipe.stage_dir(stage)
    depends_on = {key: recipe.resolved().get(key) for key in DEPENDS_ON[stage]}
    if stage == "grpo" and recipe.grpo.get("eval_steps"):
        depends_on["evaluate"] = {"held_out": recipe.evaluate.held_out, "patience": recipe.evaluate.patience}
    wanted = _flat(depends_on)
    saved = path / "recipe.yaml"
    if saved.is_file():
        found = _flat(YAML(typ="safe", pure=True).load(saved.read_text(encoding="utf-8")))
        differing = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
        if differing:
            changes = [f"  {key}: {found.get(key)} there, {wanted.get(key)} here" for key in differing]
            raise RecipeError(
                [
                    f"{path} holds a run of another recipe:",
                    *changes,
                    f"Give this run a folder of its own (override output_dir={recipe.output_dir}-2, or copy the recipe "
                    f"under a new name), or delete {path}.",
                ]
            )
    finished = (path / "summary.json").is_file()
    checkpoint = get_last_checkpoint(path) if path.is_dir() else None
    return RunFolder(path, finished, checkpoint, depends_on, recipe.seed)


def _flat(tree: dict | None, prefix: str = "") -> dict:
    flat = {}
    for key, value in (tree or {}).items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat


def _versions(seed: int) -> dict:
    import torch

    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=False).stdout
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "packages": {name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "commit": (commit or "unknown") + (" with changes" if changed.strip() else ""),
        "hardware": gpus or [f"{platform.machine()} CPU, {torch.get_num_threads()} threads"],
        "seed": seed,
    }
