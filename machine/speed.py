"""How long GRPO would take on a GPU, by an estimate of its speed."""

from machine.hardware import GPU
from schema.settings import Recipe, size_of_run

STEP = 5  # seconds of a step that a GPU's speed leaves out: vLLM wakes, takes weights, sleeps
REST = 0.2  # hours of loading, the warm start and the evaluations
WITHOUT_VLLM = 2  # times as long


def tokens_per_second(recipe: Recipe, gpu: GPU, billions: float) -> float:
    """An estimate of how fast such GPUs, one for each process, sample and train a model of so many
    weights."""
    speed = 1000 * gpu.speed * recipe.processes / billions
    if recipe.settings["grpo"]["use_vllm"]:
        return speed
    return speed / WITHOUT_VLLM


def hours_of_run(recipe: Recipe, speed: float) -> float | None:
    """The hours of a run of so many tokens a second, if it is known how long it is."""
    size = size_of_run(recipe)
    if size is None:
        return None
    steps, _, tokens = size
    return (tokens / speed + steps * STEP) / 3600 + REST
