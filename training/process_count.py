"""A run that is continued with another number of processes: with the same global batch, or not at all. trl takes from a
recipe what each process does, so that twice the processes would silently make each batch twice as large.

The problems and their order stay the same then. The completions that are sampled do not, because each process draws
random numbers of its own.
"""

from pathlib import Path

from data.json_files import read_object
from schema import library_fields
from schema.configs import processes
from schema.stages import finished

SIZE, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
GENERATION = "steps_per_generation"


def began_with(folder: Path) -> int | None:
    """With how many processes the run in a folder began; None where it does not say."""
    count = (read_object(folder / "versions.json") or {}).get("processes")
    return count if type(count) is int else None


def by_batch(folder: Path, stage: str, here: dict, there: dict) -> tuple[dict, dict]:
    """Two flat recipes, this one and a folder's run's, made comparable: where the number of processes is
    another, with the size of the whole batch in place of the keys that split it among processes."""
    began, split = began_with(folder), {f"{stage}.{key}" for key in (SIZE, ACCUMULATION, GENERATION)}
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
