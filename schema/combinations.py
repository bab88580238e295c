"""Settings of a training section that are valid one by one and do not go together: a batch and its groups, a checkpoint
and the cycle it falls in, the terms of a loss, the steps of a schedule."""

from collections.abc import Iterator
from math import gcd

from schema import library_fields, stages
from schema.configs import generation, processes
from schema.sections import Data, Evaluate
from schema.values import BY_TRANSFORMERS, BY_VLLM, LARGEST_GROUP, SCHEDULES

# (keys below the section, what is wrong there): schema/recipe.py adds the place, which makes it a fault.
Complaints = Iterator[tuple[tuple, str]]
SUGGESTED = 8  # group sizes, at most
# Losses of DPO for other divergences than reverse_kl (trl/trainer/dpo_trainer.py).
OF_ANY_DIVERGENCE = ("sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft")


def own_solutions(section: dict, recipe: dict) -> Complaints:
    """Whether a warm start can learn from the base model's own solutions, and from nothing else."""
    if section.get("own_solutions") is None:
        return
    if recipe.get("sft") is None:
        message = "data.own_solutions: they are for a warm start, and this recipe has no `sft` section: add one"
        yield ("own_solutions",), message
    if section.get("worked") is not None:
        message = (
            "data.worked: it counts the data's worked solutions, which data.own_solutions replaces: keep one of them"
        )
        yield ("worked",), message


def of_stage(name: str, section: dict, recipe: dict) -> Complaints:
    """A section of a stage that trains: what is its own, and its schedule."""
    yield from OWN[name](section, recipe) if name in OWN else ()
    yield from _schedule(name, library_fields.defaults(name) | section)


def dpo(section: dict, recipe: dict) -> Complaints:
    values = library_fields.defaults("dpo") | section
    losses, weights = section.get("loss_type", ["sigmoid"]), values["loss_weights"]  # trl's default, made in a function
    if weights is not None and len(weights) != len(losses):
        message = f"dpo.loss_weights: expected a weight for each of {', '.join(losses)}, got {len(weights)}"
        yield ("loss_weights",), message
    # These trl says only when DPO begins, after all of GRPO.
    if "exo_pair" in losses and not values["label_smoothing"]:
        yield ("label_smoothing",), "dpo.label_smoothing: the loss exo_pair needs one above 0; its paper uses 1e-3"
    if values["use_weighting"] and (wrong := {"aot", "aot_unpaired"} & set(losses)):
        yield ("use_weighting",), f"dpo.use_weighting: the loss {min(wrong)} sorts its pairs, and has no weights"
    wrong = [each for each in losses if each not in OF_ANY_DIVERGENCE]
    if wrong and values["f_divergence_type"] != "reverse_kl":
        message = f"dpo.f_divergence_type: the loss {wrong[0]} is for reverse_kl alone; leave the key out"
        yield ("f_divergence_type",), message
    if recipe.get("algorithm") == "rloo" and recipe.get("grpo", {}).get("beta"):
        message = "grpo.beta: RLOO's advantages contain its KL, and DPO tells its pairs apart by them: set it to 0"
        yield (), message
    if recipe.get("grpo", {}).get("log_completions") is False:
        yield (), "grpo.log_completions: DPO's pairs are the completions that the GRPO run writes: leave it out"


def grpo(section: dict, recipe: dict) -> Complaints:
    values = library_fields.defaults("grpo") | section
    if recipe.get("algorithm"):
        yield from _lacking(stages.algorithm(recipe["algorithm"]), section, recipe)
    if values["use_vllm"] and recipe.get("model", {}).get("revision"):
        yield (
            ("use_vllm",),
            "grpo.use_vllm: trl has vLLM load the newest revision of the model, not model.revision; download that one "
            "(`hf download … --revision … --local-dir folder`) and name the folder",
        )
    if values["use_vllm"] and recipe.get("quantization"):
        yield (
            ("use_vllm",),
            "grpo.use_vllm: vLLM cannot take the quantised weights that trl would send it: set it to "
            "false, or remove the section `quantization`",
        )
    order = recipe.get("data", {}).get("order", Data.order)
    if order != Data.order and "shuffle_dataset" in section:
        message = f"grpo.shuffle_dataset: the order is set already (data.order: {order}); leave it out"
        yield ("shuffle_dataset",), message
    if values["eval_steps"]:
        yield from _validation(recipe)
    yield from _batch(values, section)
    yield from _losses(values, section)
    if recipe.get("rounds"):
        yield from _rounds(values, generation(section).whole, recipe["rounds"])


def _lacking(other: stages.Algorithm, section: dict, recipe: dict) -> Complaints:
    """What GRPO has and another algorithm's trainer lacks."""
    for key in section:
        if key not in library_fields.fields(other.name):
            config = other.config.rpartition(".")[2]
            yield (key,), f"grpo.{key}: {other.made} has no such setting (trl.{config}): leave it out"
    if any(isinstance(each, dict) and "steps" in each for each in recipe.get("rewards", {}).values()):
        message = "has one advantage for a completion, and none for its steps: leave `steps` out"
        yield (), f"algorithm: {other.name} {message}"


def _rounds(values: dict, whole: int, rounds: int) -> Complaints:
    """A round has whole cycles of sampling and training, and a reference."""
    name = f"rounds: {rounds}"
    if not values["beta"]:
        yield (), f"{name}: without a reference a round is nothing: set grpo.beta above 0, 0.04 in the paper"
    if values["max_steps"] % (rounds * whole) or values["max_steps"] < 1:
        message = (
            f"{name} share the steps, which are sampled for {whole} at a time: take a multiple of {rounds * whole}"
        )
        yield ("max_steps",), f"grpo.max_steps: {message}"


def _validation(recipe: dict) -> Complaints:
    """Whether the problems that choose the checkpoint can be judged, shared and spared."""
    if recipe.get("rewards") and "correct_answer" not in recipe["rewards"]:
        yield (
            ("eval_steps",),
            "grpo.eval_steps: held-out accuracy is the mean of the reward `correct_answer`, which this recipe lacks; "
            "add it, with weight 0 if it should not be paid",
        )
    choosing = recipe.get("evaluate", {}).get("checkpoint_problems", Evaluate.checkpoint_problems)
    validation = recipe.get("data", {}).get("validation", Data.validation)
    if choosing % processes():
        yield (
            ("eval_steps",),
            f"evaluate.checkpoint_problems: {processes()} processes cannot share {choosing} problems evenly; take a "
            f"multiple of {processes()}",
        )
    if validation <= choosing:
        yield (
            ("eval_steps",),
            f"grpo.eval_steps: evaluate.checkpoint_problems = {choosing} problems choose the checkpoint, and none of "
            f"the data.validation = {validation} is left to compare the stages: raise it",
        )


def _batch(values: dict, section: dict) -> Complaints:
    """What is sampled at once holds whole groups, and no checkpoint falls between two samplings."""
    sampled, group = generation(section), values["num_generations"]
    if sampled.completions % group:
        fitting = [
            size for size in range(2, min(sampled.completions, LARGEST_GROUP) + 1) if sampled.completions % size == 0
        ]
        near = sorted(sorted(fitting, key=lambda size: abs(size - group))[:SUGGESTED])
        instead = f"take {', '.join(map(str, near))}, or " if near else ""
        yield (
            ("num_generations",),
            f"grpo.num_generations: groups of {group} do not fill a generation batch of {sampled.completions} "
            f"completions ({processes()} process{'es' * (processes() > 1)} × {values['per_device_train_batch_size']} "
            f"per_device_train_batch_size × {sampled.steps} steps); {instead}change the batch",
        )
    # Of a cycle's micro-steps and an update's, one must hold the other whole. Else a cycle ends inside an update, and
    # in each epoch elsewhere, because the last update of an epoch is shorter: no `save_steps` would always fit.
    accumulated = values["gradient_accumulation_steps"]
    if sampled.cycle % accumulated and accumulated % sampled.cycle:
        whole = accumulated // sampled.cycle * sampled.cycle
        yield (
            ("gradient_accumulation_steps",),
            f"grpo.gradient_accumulation_steps: {accumulated} neither divides a generation cycle of {sampled.cycle} "
            "micro-steps (steps_per_generation × num_iterations) nor is a multiple of it, and a run resumed inside a "
            f"cycle would differ; take {whole or gcd(accumulated, sampled.cycle)} or {whole + sampled.cycle}",
        )
        return
    # If neither is set, our own default of save_steps fits.
    saved = section.get("save_steps", values["eval_steps"])
    if values["save_strategy"] == "steps" and saved and saved % sampled.whole:
        yield (
            ("save_steps",) if "save_steps" in section else ("eval_steps",),
            f"grpo.save_steps: a checkpoint after {saved} steps falls inside a generation cycle of {sampled.cycle} "
            "micro-steps, and a run resumed there would differ; take a multiple of "
            f"{sampled.whole}",
        )


def _losses(values: dict, section: dict) -> Complaints:
    """Settings of trl's losses that contradict each other, and sampling options of the other engine."""
    high = values["epsilon_high"] if values["epsilon_high"] is not None else values["epsilon"]
    if values["loss_type"] == "cispo" and (values["epsilon_high"] or 0) < 1:
        message = "grpo.epsilon_high: cispo caps each token's weight there; set it, to 1 or more (MiniMax uses 5)"
        yield ("epsilon_high",), message
    if values["delta"] is not None and values["delta"] <= 1 + high:
        yield ("delta",), f"grpo.delta: {values['delta']} must be above 1 + {high}, the upper clip, to have an effect"
    if values["delta"] is not None and values["loss_type"] in ("cispo", "sapo", "vespo"):
        yield ("delta",), f"grpo.delta: {values['loss_type']} does not read it: leave it out"
    for key in section.keys() & {"sapo_temperature_neg", "sapo_temperature_pos"}:
        if values["loss_type"] != "sapo":
            yield (key,), f"grpo.{key}: only grpo.loss_type: sapo reads it; leave it out"
    for key in section.keys() & {"entropy_target", "entropy_coef_delta", "entropy_coef_min", "entropy_coef_max"}:
        if not values["use_adaptive_entropy"]:
            yield (key,), f"grpo.{key}: only grpo.use_adaptive_entropy: true reads it; set that, or leave it out"
    if "scale_rewards" in section and values["multi_objective_aggregation"] == "normalize_then_sum":
        message = "grpo.multi_objective_aggregation: normalize_then_sum scales each reward itself; leave it out"
        yield ("scale_rewards",), message
    least, most = values["entropy_coef_min"], values["entropy_coef_max"]
    if least > most:
        yield ("entropy_coef_min",), f"grpo.entropy_coef_min: {least} is above entropy_coef_max, {most}"
    engine, other, not_its = ("vLLM", "transformers", BY_TRANSFORMERS)
    if not values["use_vllm"]:
        engine, other, not_its = ("transformers", "vLLM", BY_VLLM)
    if wrong := [key for key in values["generation_kwargs"] or {} if key in not_its]:
        message = f"grpo.generation_kwargs: {', '.join(wrong)} is an option of {other}, but {engine} samples here"
        yield ("generation_kwargs",), message


def _schedule(name: str, values: dict) -> Complaints:
    """The schedule of the learning rate, and the steps that it covers."""
    kind, given = values["lr_scheduler_type"], values["lr_scheduler_kwargs"] or {}
    known, key = SCHEDULES[kind], ("lr_scheduler_kwargs",)
    about = f"{name}.lr_scheduler_kwargs: "
    if unknown := sorted(given.keys() - known.keys()):
        takes = f"takes only {', '.join(known)}" if known else "takes none"
        yield key, f"{about}{kind} {takes}, not {', '.join(unknown)}"
    if "min_lr_rate" in known and len(given.keys() & {"min_lr", "min_lr_rate"}) != 1:
        yield key, f"{about}{kind} needs min_lr or min_lr_rate, and not both"
    if "num_decay_steps" in known and "num_decay_steps" not in given:
        yield key, f"{about}{kind} needs num_decay_steps"
    least, rate = given.get("min_lr"), values["learning_rate"]
    if least is not None and least > rate:
        yield key, f"{about}min_lr {least:g} is above learning_rate {rate:g}; min_lr_rate is a share of it"
    steps, warmup = values["max_steps"], values["warmup_steps"]
    if steps < 1 or not isinstance(warmup, int):  # the steps follow from the epochs, or the warm-up is a share of them
        return
    if kind == "warmup_stable_decay":
        phases = [given.get(each) for each in ("num_decay_steps", "num_stable_steps")]
        total = warmup + sum(filter(None, phases))
        if total > steps or (None not in phases and total != steps):
            yield key, f"{about}warm-up, stable rate and decay take {total} steps in all, but max_steps is {steps}"
    if steps <= warmup:
        yield ("warmup_steps",), f"{name}.warmup_steps: all {steps} steps would be warm-up; take fewer than that"


OWN = {"grpo": grpo, "dpo": dpo}
