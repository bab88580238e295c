"""A run that is continued with another number of processes: with the same global batch, or not at all. trl takes from a
recipe what each process does, so that twice the processes would silently make each batch twice as large.

The problems and their order stay the same then. The completions that are sampled do not, because each process draws
random numbers of its own.
"""

import json
from pathlib import Path

from schema import library_fields
from schema.configs import processes

SIZE, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
GENERATION = "steps_per_generation"


def began_with(folder: Path) -> int | None:
    """With how many processes the run in a folder began; None where it does not say."""
    try:
        count = json.loads((folder / "versions.json").read_text(encoding="utf-8"))["processes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return count if type(count) is int else None


def by_batch(folder: Path, stage: str, here: dict, there: dict) -> tuple[dict, dict]:
    """Two flat recipes, this one and that of the run in a folder, made comparable: where the number of processes is
    another, with the size of the whole batch in place of the keys that split it among processes."""
    began, split = began_with(folder), {f"{stage}.{key}" for key in (SIZE, ACCUMULATION, GENERATION)}
    finished = (folder / "summary.json").is_file()  # with as many as it had, however many ask for it now
    if began in (None, processes()) or (finished and all(here.get(key) == there.get(key) for key in split)):
        return here, there
    return tuple(
        {key: value for key, value in each.items() if key not in split} | _batch(stage, each, count)
        for each, count in ((here, processes()), (there, began))
    )


def _batch(stage: str, flat: dict, count: int) -> dict[str, object]:
    """The rows of an optimizer step and of a generation, by the keys that they are the product of."""
    values = library_fields.defaults(stage)
    size, step, generation = (flat.get(f"{stage}.{key}", values.get(key)) for key in (SIZE, ACCUMULATION, GENERATION))
    generation = generation or step
    if not all(type(each) is int for each in (size, step, generation)):  # which no run wrote
        return {f"{stage}.{SIZE}": size}
    return {
        f"{stage}.{SIZE} × {ACCUMULATION} × processes": size * step * count,
        f"{stage}.{SIZE} × {GENERATION} × processes": size * generation * count,
    }
