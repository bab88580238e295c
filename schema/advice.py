"""Warnings and notes: settings that are valid but usually train badly, and what could not be
checked."""

from collections.abc import Iterator

from console.faults import Complaints, Fault, NotReached, Place, RecipeError, dotted
from schema import names
from schema.configs import setting
from schema.sections import Recipe

LEVELS = {"note": "cyan", "warning": "yellow", "error": "bold red"}  # with their colours

# Rewards that pay for the answer, and rewards that pay for its form. Any other reward, such as one
# of the user's own or a model, may pay for either, so advice that depends on it is not given.
TRUTH = ("correct_answer", "partial_credit", "brevity")
FORM = ("format_tags", "tag_count", "language_consistency")
# Rewards that may pay for a text without tags.
WITHOUT_TAGS = ("tag_count", "language_consistency")

FEW = 50  # held-out problems: the 95% interval of an accuracy is then up to 27 points wide


def tolerance_of(recipe: Recipe) -> str:
    """Which numbers a recipe with a tolerance counts as right."""
    return f"tolerance: a number is right within {recipe.tolerance:.3g} times its gold"


def warnings_of(recipe: Recipe) -> Iterator[Fault]:
    """Yield the warnings and notes about a recipe, each at the key to change."""
    for rule in ADVICE:
        for keys, message in rule(recipe):
            yield fault_at(recipe, "warning", keys, message)


# The rules of ADVICE, in the order of their warnings. The keys that they yield begin with the
# section.


def _policy_advice(recipe: Recipe) -> Complaints:
    learning_rate = setting(recipe, "grpo", "learning_rate")
    if recipe.adapter is not None and learning_rate < 4e-6:
        message = "is a learning rate for full fine-tuning; an adapter wants ten times that or more"
        yield ("grpo", "learning_rate"), f"{learning_rate:g} {message}: try 1e-5"
    group_size = setting(recipe, "grpo", "num_generations")
    if group_size < 4:
        message = "the mean says little, and most groups are all right or all wrong; take 8 or more"
        yield ("grpo", "num_generations"), f"in a group of {group_size} {message}"


def _sampling_advice(recipe: Recipe) -> Complaints:
    message = "makes a problem's completions alike, which teaches nothing: leave it out"
    limits = {"top_k": (1, 1), "top_p": (0, 0.1), "min_p": (0.9, 1), "temperature": (0, 0.1)}
    for key, (low, high) in limits.items():
        value = setting(recipe, "grpo", key)
        if value is not None and low <= value <= high:
            yield ("grpo", key), f"{value:g} {message}"


def _form_advice(recipe: Recipe) -> Complaints:
    weights = recipe.weights
    form = sum(weight for name, weight in weights.items() if name in FORM)
    truth = sum(weight for name, weight in weights.items() if name in TRUTH)
    if form >= truth and set(weights) <= {*TRUTH, *FORM}:
        message = "the policy learns what pays more; give form a quarter of the answer's weight"
        yield ("rewards",), f"form is paid {form:g} and a right answer {truth:g}: {message}"


def _unclassified(recipe: Recipe) -> set[str]:
    """The rewards of which it is not known what they pay for."""
    return set(recipe.rewards) - {*TRUTH, *FORM}


def _validation_advice(recipe: Recipe) -> Complaints:
    held_out = recipe.data.validation
    comparing = held_out
    explanation = ""
    if setting(recipe, "grpo", "eval_steps"):
        choosing = recipe.evaluate.checkpoint_problems
        comparing = held_out - choosing
        explanation = f" ({choosing} of the {held_out} choose the checkpoint)"
    if 0 < comparing < FEW:
        message = (
            f"{comparing} problems are left to compare the stages{explanation}, too few to show a"
            " gain: raise it"
        )
        yield ("data", "validation"), message


def _top_p_advice(recipe: Recipe) -> Complaints:
    samplings = [recipe.evaluate, *names.samplings(recipe).values()]
    if recipe.evaluate.top_p < 1 and not any(sampling.temperature for sampling in samplings):
        message = "greedy answers do not read it: set evaluate.temperature, or leave it out"
        yield ("evaluate", "top_p"), message


def _float16_advice(recipe: Recipe) -> Complaints:
    if recipe.model.dtype == "float16":
        message = "float16 overflows above 65,504, and such a step is skipped"
        yield ("model", "dtype"), f"{message}: take it on a GPU without bfloat16"


def _tags_advice(recipe: Recipe) -> Complaints:
    weights = recipe.weights
    needs_tags = recipe.strict or not any(name in weights for name in TRUTH)
    pays_without_tags = _unclassified(recipe) or not set(weights).isdisjoint(WITHOUT_TAGS)
    if recipe.sft is None and needs_tags and not pays_without_tags:
        message = (
            "without a warm start a model seldom writes the tags, and no reward here pays without"
            " them: add an sft section, or `tag_count`, or leave `strict` out"
        )
        yield ("rewards",), message


ADVICE = (
    _policy_advice,
    _sampling_advice,
    _form_advice,
    _validation_advice,
    _top_p_advice,
    _float16_advice,
    _tags_advice,
)


def fault_at(recipe: Recipe, level: str, keys: tuple, message: str) -> Fault:
    """The fault at the place where the recipe has `keys`, with their names in its message."""
    return Fault(recipe.place(*keys), f"{dotted(keys)}: {message}", level)


def faults_of_error(
    recipe: Recipe, error: RecipeError, keys: tuple[str, ...], subject: str
) -> Iterator[Fault]:
    """Yield the faults of an error, each at its own place of the recipe, or else at `keys`. Where
    the Hub could not be reached they are notes that `subject` has not been seen."""
    for fault in error.faults:
        place = fault.place
        prefix = ""
        message = fault.message
        if not isinstance(place, Place):
            place = recipe.place(*keys)
            prefix = f"{'.'.join(keys)}: "
            message = str(fault)
        message = message.removesuffix(".")
        if isinstance(error, NotReached):
            yield Fault(place, f"{prefix}not seen: {message}", "note", unseen=subject)
        else:
            yield Fault(place, f"{prefix}{message}")
