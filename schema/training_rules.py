"""How the keys of `sft`, `grpo` and `dpo` go together, and how they go with the rest of the recipe:
see schema/meaning.py."""

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
ONE_TURN = "it learns from answers of one turn, and `tools` make several: leave one of them out"


def check_stage(name: str, section: dict, recipe: dict) -> Complaints:
    """Check the section of a stage that trains."""
    if name == "grpo":
        yield from check_grpo(section, recipe)
    elif name == "dpo":
        yield from check_dpo(section, recipe)
    yield from _check_shares(name, section, recipe)
    yield from _check_warm_up(name, configs.defaults(name) | section)


def _check_warm_up(name: str, values: dict) -> Complaints:
    """Check that steps remain after the warm-up, to train at the learning rate. A fractional
    warm-up is a share of the steps, and -1 steps follow from the epochs."""
    steps = values["max_steps"]
    warmup = values["warmup_steps"]
    if steps > 0 and isinstance(warmup, int) and steps <= warmup:
        message = f"all {steps} steps would be warm-up; take fewer than that"
        yield ("warmup_steps",), f"{name}.warmup_steps: {message}"


def _check_shares(name: str, section: dict, recipe: dict) -> Complaints:
    """Check that the processes can share a step evenly. The numbers that can, can share every
    stage's, and the problems that choose the checkpoint."""
    if configs.shared(name, section) is not None:
        return
    choosing = recipe.get("evaluate", {}).get("checkpoint_problems", Evaluate.checkpoint_problems)
    trained = stages.STAGES.keys() & recipe.keys()
    counts = []
    for count in range(1, 2 * processes() + 1):
        shares = [configs.shared(stage, recipe[stage], count) for stage in trained]
        if None not in shares and choosing % count == 0:
            counts.append(str(count))
    key = "per_device_train_batch_size"
    values = configs.defaults(name) | section
    message = f"{processes()} processes cannot share a step of {values[key]} ×"
    message += f" {values['gradient_accumulation_steps']} (gradient_accumulation_steps) evenly:"
    message += f" take PROCESSES={' or '.join(counts)}, or change the batch"
    yield (key,), f"{name}.{key}: {message}"


def check_dpo(section: dict, recipe: dict) -> Complaints:
    if recipe.get("tools"):
        yield (), f"dpo: {ONE_TURN}"
    grpo = recipe.get("grpo", {})
    if recipe.get("algorithm") == "rloo" and grpo.get("beta"):
        message = "RLOO's advantages contain its KL, and DPO tells its pairs apart by them"
        yield (), f"grpo.beta: {message}: set it to 0"
    if grpo.get("log_completions") is False:
        message = "DPO's pairs are the completions that the GRPO run writes: leave it out"
        yield (), f"grpo.log_completions: {message}"


def check_grpo(section: dict, recipe: dict) -> Complaints:
    values = configs.defaults("grpo") | section
    if recipe.get("algorithm"):
        yield from _check_algorithm(stages.algorithm(recipe["algorithm"]), section, recipe)
    if values["use_vllm"]:
        yield from _check_vllm(recipe)
    if values["eval_steps"]:
        yield from _check_validation(recipe)
    yield from _check_tools(values, section, recipe)
    yield from _check_batch(values, section)
    yield from _check_losses(values, section)


def _check_vllm(recipe: dict) -> Complaints:
    if recipe.get("model", {}).get("revision"):
        message = (
            "trl has vLLM load the newest revision of the model, not model.revision; download that"
            " one (`hf download … --revision … --local-dir folder`) and name the folder"
        )
        yield ("use_vllm",), f"grpo.use_vllm: {message}"
    if recipe.get("quantization"):
        message = (
            "vLLM cannot take the quantised weights that trl would send it: set it to false, or"
            " remove the section `quantization`"
        )
        yield ("use_vllm",), f"grpo.use_vllm: {message}"


def _check_tools(values: dict, section: dict, recipe: dict) -> Complaints:
    tools = recipe.get("tools", [])
    if tools and values["use_vllm"]:
        yield ("use_vllm",), f"grpo.use_vllm: with `tools` {NOT_BY_VLLM}"
    # trl looks at the last token of a completion. There it finds the end of the turn that called a
    # tool.
    if tools and values["mask_truncated_completions"]:
        message = (
            "with `tools` trl takes a completion whose last call found no room for a whole one;"
            " leave it out"
        )
        yield ("mask_truncated_completions",), f"grpo.mask_truncated_completions: {message}"
    if "max_tool_calling_iterations" in section and not tools:
        message = "only `tools` reads it; leave it out"
        yield ("max_tool_calling_iterations",), f"grpo.max_tool_calling_iterations: {message}"


def _check_algorithm(algorithm: stages.Algorithm, section: dict, recipe: dict) -> Complaints:
    """Refuse what GRPO has and this algorithm's trainer lacks."""
    config = algorithm.config.rpartition(".")[2]
    for key in section:
        if key not in configs.fields(algorithm.name):
            message = f"{algorithm.title} has no such setting (trl.{config}): leave it out"
            yield (key,), f"grpo.{key}: {message}"
    rewards = recipe.get("rewards", {}).values()
    if any(isinstance(options, dict) and "steps" in options for options in rewards):
        message = "has one advantage for a completion, and none for its steps: leave `steps` out"
        yield ("algorithm",), f"algorithm: {algorithm.name} {message}"
    if recipe.get("tools"):
        message = "has no loop of `tools`: leave one of them out"
        yield ("algorithm",), f"algorithm: {algorithm.title} {message}"


def _check_validation(recipe: dict) -> Complaints:
    """Check that the problems that choose the checkpoint can be judged, that the processes can
    share them evenly, and that some of the held-out problems remain for the evaluation."""
    if recipe.get("rewards") and "correct_answer" not in recipe["rewards"]:
        message = (
            "held-out accuracy is the mean of the reward `correct_answer`, which this recipe lacks;"
            " add it, with weight 0 if it should not be paid"
        )
        yield ("eval_steps",), f"grpo.eval_steps: {message}"
    choosing = recipe.get("evaluate", {}).get("checkpoint_problems", Evaluate.checkpoint_problems)
    validation = recipe.get("data", {}).get("validation", Data.validation)
    if choosing % processes():
        message = (
            f"{processes()} processes cannot share {choosing} problems evenly; take a multiple"
        )
        yield ("eval_steps",), f"evaluate.checkpoint_problems: {message} of {processes()}"
    if validation <= choosing:
        message = (
            f"evaluate.checkpoint_problems = {choosing} problems choose the checkpoint, and none of"
            f" the data.validation = {validation} is left to compare the stages: raise it"
        )
        yield ("eval_steps",), f"grpo.eval_steps: {message}"


def _check_batch(values: dict, section: dict) -> Complaints:
    """Check that a generation batch holds whole groups, and that no checkpoint falls inside a
    generation cycle."""
    sampled = generation(section, 1)  # the same of the shares of several processes
    group_size = values["num_generations"]
    if sampled.completions % group_size:
        message = _batch_message(sampled, group_size, values["per_device_train_batch_size"])
        yield ("num_generations",), f"grpo.num_generations: {message}"
    # A generation cycle must hold whole optimizer steps, or a step whole cycles. Otherwise a cycle
    # ends inside a step, and in every epoch at another place, because the last step of an epoch is
    # shorter: no `save_steps` would always fit.
    accumulated = values["gradient_accumulation_steps"]
    if sampled.cycle % accumulated and accumulated % sampled.cycle:
        multiple = accumulated // sampled.cycle * sampled.cycle
        smaller = multiple or gcd(accumulated, sampled.cycle)
        message = (
            f"{accumulated} neither divides a generation cycle of {sampled.cycle} micro-steps"
            " (steps_per_generation × num_iterations) nor is a multiple of it, and a run resumed"
            f" inside a cycle would differ; take {smaller} or {multiple + sampled.cycle}"
        )
        yield ("gradient_accumulation_steps",), f"grpo.gradient_accumulation_steps: {message}"
        return
    # If the recipe sets neither key, our own default of save_steps fits.
    save_steps = section.get("save_steps", values["eval_steps"])
    saves = values["save_strategy"] == "steps" and save_steps
    if saves and save_steps % sampled.aligned_steps:
        key = "save_steps" if "save_steps" in section else "eval_steps"
        message = (
            f"a checkpoint after {save_steps} steps falls inside a generation cycle of"
            f" {sampled.cycle} micro-steps, and a run resumed there would differ; take a multiple"
            f" of {sampled.aligned_steps}"
        )
        yield (key,), f"grpo.save_steps: {message}"
    elif saves and values["eval_steps"] and save_steps % values["eval_steps"]:
        message = (
            f"a checkpoint after {save_steps} steps would have no evaluation, and the best by"
            f" evaluation is kept (grpo.eval_steps = {values['eval_steps']}); take a multiple of"
            f" {lcm(values['eval_steps'], sampled.aligned_steps)}"
        )
        yield ("save_steps",), f"grpo.save_steps: {message}"


def _batch_message(sampled: configs.Generation, group_size: int, batch_size: int) -> str:
    """The message for groups that do not fill the generation batch, with the nearest group sizes
    that do."""
    sizes = range(2, min(sampled.completions, LARGEST_GROUP) + 1)
    fitting = [size for size in sizes if sampled.completions % size == 0]
    fitting.sort(key=lambda size: abs(size - group_size))
    suggestions = sorted(fitting[:SUGGESTED])
    advice = f"take {', '.join(map(str, suggestions))}, or " if suggestions else ""
    return (
        f"groups of {group_size} do not fill a generation batch of {sampled.completions}"
        f" completions ({batch_size} per_device_train_batch_size × {sampled.steps} steps);"
        f" {advice}change the batch"
    )


def _check_losses(values: dict, section: dict) -> Complaints:
    """Refuse settings of trl's losses that contradict each other, and sampling options of the
    engine that does not sample."""
    upper_clip = values["epsilon_high"]
    if values["loss_type"] == "cispo" and (upper_clip or 0) < 1:
        message = "cispo caps each token's weight there; set it, to 1 or more (ScaleRL uses 5)"
        yield ("epsilon_high",), f"grpo.epsilon_high: {message}"
    if upper_clip is None:
        upper_clip = values["epsilon"]
    if values["delta"] is not None and values["delta"] <= 1 + upper_clip:
        message = (
            f"{values['delta']} must be above 1 + {upper_clip}, the upper clip, to have an effect"
        )
        yield ("delta",), f"grpo.delta: {message}"
    for key, (setting, readers) in READ_FOR.items():
        if key in section and str(values[setting]) not in readers:
            alternatives = " or ".join(readers).lower()
            message = f"only grpo.{setting}: {alternatives} reads it; set that, or leave it out"
            yield (key,), f"grpo.{key}: {message}"
    engine, idle_engine, idle_options = "transformers", "vLLM", VLLM_SAMPLING
    if values["use_vllm"]:
        engine, idle_engine, idle_options = "vLLM", "transformers", TRANSFORMERS_SAMPLING
    unread = [key for key in values["generation_kwargs"] or {} if key in idle_options]
    if unread:
        message = f"{', '.join(unread)} is an option of {idle_engine}, but {engine} samples here"
        yield ("generation_kwargs",), f"grpo.generation_kwargs: {message}"
