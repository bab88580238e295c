"""A recipe as this machine can run it."""

import dataclasses
import os

from machine import hardware
from schema.sections import Recipe


def to_machine(recipe: Recipe) -> Recipe:
    """The recipe with float32 in place of a dtype that this machine would emulate. The run folder
    and the answers of an evaluation record which dtype it was.

    Raises:
        RecipeError: there is a GPU that torch cannot use, and nobody asked for the CPU.
    """
    hardware.refuse_unusable_gpu()
    dtype = recipe.model.dtype
    if hardware.has_arithmetic(dtype):
        return recipe
    quantization = recipe.quantization
    evaluate = recipe.evaluate
    if recipe.adapter is not None and evaluate.engine == "vllm":
        # vLLM's kernels for adapters have no float32, and the evaluation would fail after all the
        # training.
        evaluate = dataclasses.replace(evaluate, engine="transformers")
    if quantization and quantization.get("bnb_4bit_compute_dtype") == dtype:
        quantization = quantization | {"bnb_4bit_compute_dtype": "float32"}
    return dataclasses.replace(
        recipe,
        model=dataclasses.replace(recipe.model, dtype="float32"),
        quantization=quantization,
        evaluate=evaluate,
    )


def device_line(recipe: Recipe, dtype_in_recipe: str) -> str:
    """Device, dtype, attention and processes of a stage.

    Args:
        recipe: what `to_machine` returned.
        dtype_in_recipe: what stood there before.
    """
    dtype = recipe.model.dtype
    if dtype != dtype_in_recipe:
        dtype += f" (this machine has no arithmetic for the recipe's {dtype_in_recipe})"
    count = int(os.environ.get("WORLD_SIZE", 1))
    processes = "1 process" if count == 1 else f"{count} processes"
    attention = recipe.model.attn_implementation or hardware.ATTENTION
    return f"{hardware.device()}; {dtype}; attention {attention}; {processes}"
