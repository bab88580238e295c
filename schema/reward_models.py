"""Which models can be a learned reward, as far as their name and their config.json tell: no library is imported."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from schema.combinations import Complaints
from schema.configs import processes
from schema.names import LEARNED, no_such_folder
from schema.rules import Pattern
from schema.sections import Recipe
from schema.values import RULES

LARGEST = 2**20  # bytes of a config.json; known models' have a few thousand
OPTIONS = {
    "model": RULES["model"]["name_or_path"],
    "revision": RULES["model"]["revision"],
    "separator": Pattern(r"(?s).{1,20}", 'the text after each step, such as "\\n"'),
}


class Head(NamedTuple):
    """What a model must end in: the end of its class's name, and how many labels."""

    kind: str
    labels: int
    made_by: str


OF_COMPLETIONS = Head("ForSequenceClassification", 1, "`make reward-model` and trl's RewardTrainer make such models")
OF_STEPS = Head("ForTokenClassification", 2, "a process reward model, as trl's former PRMTrainer made them")


def head(options: dict) -> Head:
    """The head that the options of a learned reward ask for."""
    return OF_STEPS if "steps" in options else OF_COMPLETIONS


def wrong_config(config: object, wanted: Head) -> str | None:
    """What keeps the model of a config.json from having that head, or None."""
    if not isinstance(config, dict):
        return "its config.json is not a JSON object"
    # Two labels are transformers' default, which a config.json need not say.
    named, labels = config.get("architectures"), config.get("id2label", config.get("num_labels", 2))
    named = named[0] if isinstance(named, list) and len(named) == 1 else named
    needed = f"a learned reward {'of steps ' * (wanted is OF_STEPS)}is a model …{wanted.kind} ({wanted.made_by})"
    if not isinstance(named, str) or not named.endswith(wanted.kind):
        own = ", whose own code is never run here" if "auto_map" in config else ""
        return f"its architecture is {named!r:.80}{own}; {needed}"
    count = len(labels) if isinstance(labels, dict) else labels
    return None if count == wanted.labels else f"it has {count!r:.20} labels, not {wanted.labels}; {needed}"


def refreshes(recipe: Recipe) -> bool:
    """Whether the reward model goes on learning between the rounds of a run."""
    return bool(recipe.rewards.get(LEARNED, {}).get("refresh"))


def complaints(options: dict, recipe: dict) -> Complaints:
    """What is wrong with the options of the reward `learned`, apart from those that every reward has."""
    if options.get("refresh") is True:
        for wrong in _no_refresh(options, recipe):
            yield (LEARNED, "refresh"), f"rewards.{LEARNED}.refresh: {wrong}"
    if "model" not in options:
        yield (LEARNED,), f"rewards.{LEARNED}: it needs a `model`: a folder, or a Hub id"
    wrong = [(key, rule.refusal(options[key])) for key, rule in OPTIONS.items() if key in options]
    for key, refusal in wrong:
        if refusal:
            yield (LEARNED, key), f"rewards.{LEARNED}.{key}: {refusal}"
    if not options.get("model") or any(refusal for _, refusal in wrong):
        return
    name = options["model"]
    if refusal := no_such_folder(name) or (_wrong_folder(Path(name), head(options)) if Path(name).is_dir() else None):
        yield (LEARNED, "model"), f"rewards.{LEARNED}.model: {refusal}"


def _no_refresh(options: dict, recipe: dict) -> Iterator[str]:
    """What keeps the reward model from being refreshed."""
    if not recipe.get("rounds"):
        yield "the reward model is refreshed between two rounds: set `rounds`"
    if "steps" in options:
        yield "whole completions are right or wrong, and steps are not: leave `refresh` or `steps` out"
    if "correct_answer" not in recipe.get("rewards", {}):
        yield "correct_answer tells right from wrong: add it, with weight 0 if it should not be paid"
    if processes() > 1:
        yield f"it works with one process, and there are {processes()}"


def _wrong_folder(folder: Path, wanted: Head) -> str | None:
    file = folder / "config.json"
    if (folder / "adapter_config.json").exists():
        return f"{folder} holds an adapter: merge it into its base, and name the whole model"
    if not file.is_file():
        return f"{folder} holds no config.json, so it is not a model, or not a finished one"
    try:
        config = json.loads(file.read_text(encoding="utf-8")) if file.stat().st_size <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        config = None
    if wrong := wrong_config(config, wanted):
        return f"{folder}: {wrong}"
    safe = any((folder / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json"))
    return None if safe else f"{folder} holds no model.safetensors: other formats may hold code and are not read"
