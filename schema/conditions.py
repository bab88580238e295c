"""What the rules of schema/rules.py ask of a recipe.

A condition returns whether the values break its rule; or, where the message says more, what it
says, by name.
"""

from collections import Counter
from collections.abc import Callable
from math import gcd, lcm, sqrt
from pathlib import Path

from data.files import FILE_TYPES
from schema import configs, names
from schema.configs import Values
from schema.sections import CHOOSING
from schema.stages import STAGES
from schema.values import LARGEST_GROUP, TRANSFORMERS_SAMPLING, VLLM_SAMPLING

# Rewards that pay for the answer, and rewards that pay for its format. Any other reward, such as
# one of the user's own or a model, may pay for either, so advice that depends on it is not given.
TRUTH = ("correct_answer", "partial_credit", "brevity")
FORMAT = ("format_tags", "tag_count", "language_consistency")
# Rewards that may pay for a text without tags.
WITHOUT_TAGS = ("tag_count", "language_consistency")
FEW = 50  # validation problems: the 95% interval of an accuracy is then up to 27 points wide
SUGGESTED = 8  # group sizes, at most


def begins_at_random(values: Values) -> bool:
    """Whether GRPO begins with the weights of a tiny model, which were drawn and never trained."""
    is_tiny = str(values.model.build).startswith("tiny-")
    return is_tiny and "grpo" in values.sections and "sft" not in values.sections


def rewards_steps(values: Values) -> bool:
    return any("steps" in options for options in values.rewards.values())


def no_such_model(values: Values) -> dict | None:
    name = values.model.name_or_path
    reason = names.no_such_folder(name) if name else None
    return {"reason": reason} if reason else None


def is_quantised(values: Values) -> bool:
    return values.quantization.load_in_4bit or values.quantization.load_in_8bit


def uses_vllm(values: Values) -> bool:
    return values.grpo.use_vllm or values.evaluate.engine == "vllm"


def uneven_share(stage: str) -> Callable[[Values], dict | None]:
    """Whether the processes cannot share a step of a stage evenly. The numbers that can, can share
    every stage's, and the problems that choose the checkpoint."""

    def facts(values: Values) -> dict | None:
        if configs.shared(stage, vars(getattr(values, stage)), values.processes) is not None:
            return None
        counts = []
        for count in range(1, 2 * values.processes + 1):
            shares = []
            for trained in STAGES.keys() & values.sections:
                shares.append(configs.shared(trained, vars(getattr(values, trained)), count))
            if None not in shares and (values.evaluate.checkpoint_problems or 0) % count == 0:
                counts.append(str(count))
        return {"counts": " or ".join(counts)}

    return facts


def only_warms_up(stage: str) -> Callable[[Values], bool]:
    """Whether all steps of a stage would be warm-up. A fractional warm-up is a share of the steps,
    and -1 steps follow from the epochs."""

    def is_broken(values: Values) -> bool:
        steps = getattr(values, stage).max_steps
        warmup = getattr(values, stage).warmup_steps
        return steps > 0 and isinstance(warmup, int) and steps <= warmup

    return is_broken


def counts_no_epochs(stage: str) -> Callable[[Values], bool]:
    """Whether a recipe sets epochs beside the number of steps, which alone decides."""
    return lambda values: (
        f"{stage}.num_train_epochs" in values.keys and getattr(values, stage).max_steps > 0
    )


def saves_only_at_the_end(stage: str) -> Callable[[Values], bool]:
    """Whether a recipe asks for checkpoints after more steps than the stage has."""

    def is_broken(values: Values) -> bool:
        section = getattr(values, stage)
        return f"{stage}.save_steps" in values.keys and section.save_steps > section.max_steps > 0

    return is_broken


def rate_beyond(stage: str, lowest: float, highest: float) -> Callable[[Values], dict | None]:
    """Whether a stage's learning rate teaches nothing, or ruins the model."""

    def facts(values: Values) -> dict | None:
        rate = getattr(values, stage).learning_rate
        if lowest <= rate <= highest:
            return None
        reason = "changes next to nothing" if rate < lowest else "ruins a model in a few steps"
        return {"rate": rate, "reason": reason}

    return facts


def lies_above(key: str, highest: float) -> Callable[[Values], bool]:
    return lambda values: getattr(values.grpo, key) > highest


def unread_beside(key: str, setting: str, readers: tuple[str, ...]) -> Callable[[Values], bool]:
    """Whether a recipe sets a key that trl reads only beside some values of another setting."""
    return lambda values: (
        f"grpo.{key}" in values.keys and str(getattr(values.grpo, setting)) not in readers
    )


def lies_between(key: str, low: float, high: float) -> Callable[[Values], bool]:
    def is_broken(values: Values) -> bool:
        value = getattr(values.grpo, key)
        return value is not None and low <= value <= high

    return is_broken


def broken_groups(values: Values) -> dict | None:
    """Whether a generation batch does not hold whole groups."""
    completions = values.sampled.completions
    group_size = values.grpo.num_generations
    if completions % group_size == 0:
        return None
    sizes = range(2, min(completions, LARGEST_GROUP) + 1)
    fitting = [size for size in sizes if completions % size == 0]
    fitting.sort(key=lambda size: abs(size - group_size))
    nearest = sorted(fitting[:SUGGESTED])
    return {"advice": f"take {', '.join(map(str, nearest))}, or " if nearest else ""}


def broken_cycle(values: Values) -> dict | None:
    """Whether neither a generation cycle holds whole optimizer steps nor a step whole cycles.
    Otherwise a cycle ends inside a step, and in every epoch at another place, because the last
    step of an epoch is shorter: no `save_steps` would always fit."""
    cycle = values.sampled.cycle
    accumulated = values.grpo.gradient_accumulation_steps
    if cycle % accumulated == 0 or accumulated % cycle == 0:
        return None
    multiple = accumulated // cycle * cycle
    smaller = multiple or gcd(accumulated, cycle)
    return {"smaller": smaller, "larger": multiple + cycle}


def _saving_key(values: Values) -> str:
    """The key that says after how many steps a checkpoint is saved. If the recipe sets neither, our
    own default fits."""
    return "save_steps" if "grpo.save_steps" in values.keys else "eval_steps"


def _saves_every(values: Values) -> int | None:
    if values.grpo.save_strategy != "steps" or broken_cycle(values):
        return None
    key = _saving_key(values)
    if key == "eval_steps" and values.evaluate.checkpoint_problems == 0:
        return None  # an evaluation that chooses no checkpoint saves none
    return getattr(values.grpo, key)


def saves_inside_a_cycle(values: Values) -> dict | None:
    every = _saves_every(values)
    if not every or every % values.sampled.aligned_steps == 0:
        return None
    return {"saving": _saving_key(values), "every": every}


def saves_without_evaluation(values: Values) -> dict | None:
    every = _saves_every(values)
    between = values.grpo.eval_steps
    if not every or not between or every % between == 0 or saves_inside_a_cycle(values):
        return None
    if values.evaluate.checkpoint_problems == 0:
        return None
    multiple = lcm(between, values.sampled.aligned_steps)
    return {"saving": _saving_key(values), "every": every, "multiple": multiple}


def upper_clip(values: Values) -> float:
    if values.grpo.epsilon_high is None:
        return values.grpo.epsilon
    return values.grpo.epsilon_high


def clips_nothing(values: Values) -> dict | None:
    delta = values.grpo.delta
    if delta is None or delta > 1 + upper_clip(values):
        return None
    return {"clip": upper_clip(values)}


def unread_options(values: Values) -> dict | None:
    """The options of sampling that belong to the engine which does not sample."""
    options = TRANSFORMERS_SAMPLING if values.grpo.use_vllm else VLLM_SAMPLING
    unread = options.keys() & (values.grpo.generation_kwargs or {})
    return {"unread": ", ".join(sorted(unread))} if unread else None


def _labels(values: Values) -> list[str]:
    labels = []
    for entry in names.entries_of(values.evaluate.benchmarks):
        if isinstance(entry, str) or (isinstance(entry, dict) and entry):
            labels.append(names.benchmark_label(entry))
    return labels


def taken_label(values: Values) -> dict | None:
    """A benchmark's label that is the name of another folder of the evaluation."""
    label = next(iter({*names.TAKEN_LABELS} & {*_labels(values)}), None)
    return {"label": label} if label else None


def repeated_benchmarks(values: Values) -> dict | None:
    labels = _labels(values)
    repeated = [f"{label} {times} times" for label, times in Counter(labels).items() if times > 1]
    return {"labels": ", ".join(repeated)} if repeated else None


def files_trained_on(values: Values) -> dict | None:
    """The files that are a benchmark too, with the same rows of them."""
    trained = list(map(_rows_of_file, names.entries_of(values.data.train)))
    files = []
    for entry in names.entries_of(values.evaluate.benchmarks):
        rows = _rows_of_file(entry)
        if rows is not None and rows in trained:
            files.append(rows[0])
    return {"files": ", ".join(files)} if files else None


def _rows_of_file(entry: object) -> tuple[str, object] | None:
    """The name of an entry's file, which has no splits, and the `where` that chooses its rows; None
    for another data set."""
    name, where = entry, None
    if isinstance(entry, dict) and len(entry) == 1:
        name, arguments = names.name_and_arguments(entry)
        if isinstance(arguments, dict):
            where = arguments.get("where")
    if isinstance(name, str) and Path(name).suffix in FILE_TYPES:
        return name, where
    return None


def pays_nothing(values: Values) -> bool:
    weights = []
    for options in values.rewards.values():
        weights.append(options.get("weight") if isinstance(options, dict) else None)
    return bool(weights) and all(weight == 0 for weight in weights)


def punishes_truth(values: Values) -> dict | None:
    for name in TRUTH:
        options = values.rewards.get(name)
        weight = options.get("weight", 1.0) if isinstance(options, dict) else 1.0
        if type(weight) in (int, float) and weight < 0:
            return {"reward": name, "weight": weight, "positive": -weight}
    return None


def pays_more_for_form(values: Values) -> dict | None:
    weights = {name: options.get("weight", 1.0) for name, options in values.rewards.items()}
    for_format = sum(weight for name, weight in weights.items() if name in FORMAT)
    truth = sum(weight for name, weight in weights.items() if name in TRUTH)
    if for_format < truth or truth < 0 or not set(weights) <= {*TRUTH, *FORMAT}:
        return None
    return {"format": for_format, "truth": truth}


def needs_tags_and_teaches_none(values: Values) -> bool:
    is_strict = values.rewards.get("correct_answer", {}).get("strict", False)
    needs_tags = is_strict or not set(TRUTH) & set(values.rewards)
    unclassified = set(values.rewards) - {*TRUTH, *FORMAT}
    pays_without_tags = unclassified or set(WITHOUT_TAGS) & set(values.rewards)
    return "sft" not in values.sections and needs_tags and not pays_without_tags


def points_shown_by(problems: int) -> int:
    """The gain, in points, that is two standard errors where so many problems compare two models,
    and one answer in four is correct of one and incorrect of the other."""
    return round(100 / sqrt(problems))


def none_left_to_compare(values: Values) -> dict | None:
    """Whether all validation problems would choose the checkpoint, where the recipe says how many
    of both there are."""
    validation = values.data.validation
    choosing = values.evaluate.checkpoint_problems
    if not values.grpo.eval_steps or None in (validation, choosing) or choosing < validation:
        return None
    advice = "add problems, or leave grpo.eval_steps out"
    if validation > 1:
        advice = f"write evaluate.checkpoint_problems: {validation // 2}, or leave it out"
    return {"advice": advice}


def few_to_compare(values: Values) -> dict | None:
    comparing = values.data.validation
    if comparing is None:  # training/problem_sets.py says how many of the data's it is
        return None
    explanation = ""
    choosing = values.evaluate.checkpoint_problems
    if values.grpo.eval_steps and choosing != 0:
        if choosing is None:
            choosing = min(CHOOSING, comparing // 2)
        explanation = f" ({choosing} of the {comparing} choose the checkpoint)"
        comparing -= choosing
    if not 0 < comparing < FEW:
        return None
    points = points_shown_by(comparing)
    return {"comparing": comparing, "explanation": explanation, "points": points}


def never_reads_top_p(values: Values) -> bool:
    temperatures = [values.evaluate.temperature]
    for entry in values.evaluate.benchmarks or []:
        temperatures.append(names.own_sampling(entry).get("temperature", temperatures[0]))
    return values.evaluate.top_p < 1 and not any(temperatures)
