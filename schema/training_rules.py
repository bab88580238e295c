"""How the keys of `sft` and `grpo` go together, and how they go with the rest of the recipe: see
schema/meaning.py."""

from math import gcd, lcm

from console.faults import Complaints
from schema import configs, stages
from schema.configs import generation, processes
from schema.sections import Data, Evaluate
from schema.values import LARGEST_GROUP, TRANSFORMERS_SAMPLING, VLLM_SAMPLING

SUGGESTED = 8  # group sizes, at most
CLIPPED = ("grpo", "dr_grpo", "dapo", "bnpo", "luspo")
# Settings that trl reads only beside some values of another setting (trl/trainer/grpo_trainer.py).
READ_FOR = {
    "delta": ("loss_type", CLIPPED),
    "sapo_temperature_neg": ("loss_type", ("sapo",)),
    "sapo_temperature_pos": ("loss_type", ("sapo",)),
    "entropy_target": ("use_adaptive_entropy", ("True",)),
    "scale_rewards": ("multi_objective_aggregation", ("sum_then_normalize",)),
}

NOT_BY_VLLM = "only transformers samples, vLLM has not been tried: leave one of them out"


def check_stage(name: str, section: dict, recipe: dict) -> Complaints:
    """Check the section of a stage that trains."""
    if name == "grpo":
        yield from check_grpo(section, recipe)
    yield from _check_shares(name, section, recipe)
    # A fractional warm-up is a share of the steps, and -1 steps follow from the epochs.
    values = configs.defaults(name) | section
    steps = values["max_steps"]
    warmup = values["warmup_steps"]
    if steps > 0 and isinstance(warmup, int) and steps <= warmup:
        yield (name, "warmup_steps"), f"all {steps} steps would be warm-up; take fewer than that"


def _check_shares(name: str, section: dict, recipe: dict) -> Complaints:
    """Check that the processes can share a step evenly. The numbers that can, can share every
    stage's, and the problems that choose the checkpoint."""
    if configs.shared(name, section) is not None:
        return
    trained = stages.STAGES.keys() & recipe.keys()
    counts = []
    for count in range(1, 2 * processes() + 1):
        shares = [configs.shared(stage, recipe[stage], count) for stage in trained]
        if None not in shares and _choosing(recipe) % count == 0:
            counts.append(str(count))
    key = "per_device_train_batch_size"
    values = configs.defaults(name) | section
    message = f"{processes()} processes cannot share a step of {values[key]} ×"
    message += f" {values['gradient_accumulation_steps']} (gradient_accumulation_steps) evenly:"
    yield (name, key), f"{message} take PROCESSES={' or '.join(counts)}, or change the batch"


def _choosing(recipe: dict) -> int:
    """How many held-out problems choose the checkpoint."""
    return recipe.get("evaluate", {}).get("checkpoint_problems", Evaluate.checkpoint_problems)


def check_grpo(section: dict, recipe: dict) -> Complaints:
    values = configs.defaults("grpo") | section
    if values["use_vllm"]:
        yield from _check_vllm(recipe)
    if values["eval_steps"]:
        yield from _check_validation(recipe)
    yield from _check_tools(values, section, recipe)
    yield from _check_batch(values, section)
    yield from _check_losses(values, section)


def _check_vllm(recipe: dict) -> Complaints:
    if recipe.get("model", {}).get("revision"):
        yield (
            ("grpo", "use_vllm"),
            "trl has vLLM load the newest revision of the model, not model.revision; download that"
            " one (`hf download … --revision … --local-dir folder`) and name the folder",
        )
    if recipe.get("quantization"):
        yield (
            ("grpo", "use_vllm"),
            "vLLM cannot take the quantised weights that trl would send it: set it to false, or"
            " remove the section `quantization`",
        )


def _check_tools(values: dict, section: dict, recipe: dict) -> Complaints:
    if not recipe.get("tools"):
        if "max_tool_calling_iterations" in section:
            yield ("grpo", "max_tool_calling_iterations"), "only `tools` reads it; leave it out"
        return
    if values["use_vllm"]:
        yield ("grpo", "use_vllm"), f"with `tools` {NOT_BY_VLLM}"
    # trl looks at the last token of a completion. There it finds the end of the turn that called a
    # tool.
    if values["mask_truncated_completions"]:
        message = (
            "with `tools` trl takes a completion whose last call found no room for a whole one"
        )
        yield ("grpo", "mask_truncated_completions"), f"{message}; leave it out"


def _check_validation(recipe: dict) -> Complaints:
    """Check that the problems that choose the checkpoint can be judged, that the processes can
    share them evenly, and that some of the held-out problems remain for the evaluation."""
    key = ("grpo", "eval_steps")
    if recipe.get("rewards") and "correct_answer" not in recipe["rewards"]:
        message = "held-out accuracy is the mean of the reward `correct_answer`, which this recipe"
        yield key, f"{message} lacks; add it, with weight 0 if it should not be paid"
    choosing = _choosing(recipe)
    validation = recipe.get("data", {}).get("validation", Data.validation)
    if choosing % processes():
        message = f"{processes()} processes cannot share evaluate.checkpoint_problems = {choosing}"
        yield key, f"{message} problems evenly; take a multiple of {processes()}"
    if validation <= choosing:
        yield (
            key,
            f"evaluate.checkpoint_problems = {choosing} problems choose the checkpoint, and none of"
            f" the data.validation = {validation} is left to compare the stages: raise it",
        )


def _check_batch(values: dict, section: dict) -> Complaints:
    """Check that a generation batch holds whole groups, and that no checkpoint falls inside a
    generation cycle."""
    sampled = generation(section, 1)  # the same of the shares of several processes
    group_size = values["num_generations"]
    if sampled.completions % group_size:
        sizes = _fitting_groups(sampled.completions, group_size)
        advice = f"take {', '.join(map(str, sizes))}, or " if sizes else ""
        yield (
            ("grpo", "num_generations"),
            f"groups of {group_size} do not fill a generation batch of {sampled.completions}"
            f" completions ({values['per_device_train_batch_size']} per_device_train_batch_size ×"
            f" {sampled.steps} steps); {advice}change the batch",
        )
    # A generation cycle must hold whole optimizer steps, or a step whole cycles. Otherwise a cycle
    # ends inside a step, and in every epoch at another place, because the last step of an epoch is
    # shorter: no `save_steps` would always fit.
    accumulated = values["gradient_accumulation_steps"]
    if sampled.cycle % accumulated and accumulated % sampled.cycle:
        multiple = accumulated // sampled.cycle * sampled.cycle
        smaller = multiple or gcd(accumulated, sampled.cycle)
        yield (
            ("grpo", "gradient_accumulation_steps"),
            f"{accumulated} neither divides a generation cycle of {sampled.cycle} micro-steps"
            " (steps_per_generation × num_iterations) nor is a multiple of it, and a run resumed"
            f" inside a cycle would differ; take {smaller} or {multiple + sampled.cycle}",
        )
        return
    # If the recipe sets neither key, our own default of save_steps fits.
    key = "save_steps" if "save_steps" in section else "eval_steps"
    every = section.get("save_steps", values["eval_steps"])
    if values["save_strategy"] != "steps" or not every:
        return
    message = f"a checkpoint after {every} steps"
    if every % sampled.aligned_steps:
        message += f" falls inside a generation cycle of {sampled.cycle} micro-steps, and a run"
        message += " resumed there would differ"
        yield ("grpo", key), f"{message}; take a multiple of {sampled.aligned_steps}"
    elif values["eval_steps"] and every % values["eval_steps"]:
        message += " would have no evaluation, and the best by evaluation is kept"
        message += f" (grpo.eval_steps = {values['eval_steps']})"
        multiple = lcm(values["eval_steps"], sampled.aligned_steps)
        yield ("grpo", key), f"{message}; take a multiple of {multiple}"


def _fitting_groups(completions: int, group_size: int) -> list[int]:
    """The sizes of whole groups in so many completions that are nearest to a size."""
    sizes = range(2, min(completions, LARGEST_GROUP) + 1)
    fitting = [size for size in sizes if completions % size == 0]
    fitting.sort(key=lambda size: abs(size - group_size))
    return sorted(fitting[:SUGGESTED])


def _check_losses(values: dict, section: dict) -> Complaints:
    """Refuse settings of trl's losses that contradict each other, and sampling options of the
    engine that does not sample."""
    upper_clip = values["epsilon_high"]
    if values["loss_type"] == "cispo" and (upper_clip or 0) < 1:
        message = "cispo caps each token's weight there; set it, to 1 or more (ScaleRL uses 5)"
        yield ("grpo", "epsilon_high"), message
    if upper_clip is None:
        upper_clip = values["epsilon"]
    if values["delta"] is not None and values["delta"] <= 1 + upper_clip:
        message = f"{values['delta']} must be above 1 + {upper_clip}, the upper clip"
        yield ("grpo", "delta"), f"{message}, to have an effect"
    for key, (setting, readers) in READ_FOR.items():
        if key in section and str(values[setting]) not in readers:
            alternatives = " or ".join(readers).lower()
            message = f"only grpo.{setting}: {alternatives} reads it; set that, or leave it out"
            yield ("grpo", key), message
    engine, idle_engine, idle_options = "transformers", "vLLM", VLLM_SAMPLING
    if values["use_vllm"]:
        engine, idle_engine, idle_options = "vLLM", "transformers", TRANSFORMERS_SAMPLING
    unread = idle_options.keys() & (values["generation_kwargs"] or {})
    if unread:
        message = f"{', '.join(sorted(unread))} is an option of {idle_engine}"
        yield ("grpo", "generation_kwargs"), f"{message}, but {engine} samples here"
