"""Settings that are valid but usually train badly. Reads only the recipe."""

from collections.abc import Iterator
from typing import NamedTuple

from schema.configs import setting
from schema.faults import Fault, Place
from schema.names import LEARNED
from schema.recipe import Recipe

# Rewards that pay for the answer, and rewards that pay for its form.
TRUTH = ("correct_answer", "partial_credit", "brevity")
FORM = ("format_tags", "tag_count", "language_consistency")

FEW = 50  # held-out problems: the 95% interval of an accuracy is then up to 27 points wide

LEVELS = ("error", "warning", "note")


class Finding(NamedTuple):
    """A line of `make check`. `level`: error (it will not run as written), warning (it will run and disappoint), or
    note."""

    level: str
    place: Place | str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {Fault(self.place, self.message)}"


def warnings_of(recipe: Recipe) -> Iterator[Finding]:
    """Warnings and notes about a recipe, each in the place of the key to change."""
    rate, group = (setting(recipe, "grpo", key) for key in ("learning_rate", "num_generations"))
    if recipe.adapter is not None and rate < 4e-6:
        yield finding(
            recipe,
            "warning",
            ("grpo", "learning_rate"),
            f"{rate:g} is a learning rate for full fine-tuning; an adapter wants ten times that or more: try 1e-5",
        )
    if group < 4:
        yield finding(
            recipe,
            "warning",
            ("grpo", "num_generations"),
            f"in a group of {group} the mean says little, and most groups are all right or all wrong; take 8 or more",
        )
    paid = recipe.weights
    truth = sum(weight for name, weight in paid.items() if name not in FORM)
    form = sum(weight for name, weight in paid.items() if name in FORM)
    if form >= truth:
        yield finding(
            recipe,
            "warning",
            ("rewards",),
            f"form is paid {form:g} and a right answer {truth:g}: the policy learns what pays more; give form a "
            "quarter of the answer's weight",
        )
    yield from _held_out_warnings(recipe)
    yield from _learned_warnings(recipe)
    if recipe.model.dtype == "float16":
        message = "float16 overflows in long completions and ends in NaN; use bfloat16 or float32"
        yield finding(recipe, "warning", ("model", "dtype"), message)
    strict = recipe.strict or not any(name in paid for name in TRUTH)
    if recipe.sft is None and strict and set(paid) <= {*TRUTH, *FORM} and "tag_count" not in paid:
        yield finding(
            recipe,
            "warning",
            ("rewards",),
            "without a warm start a model seldom writes the tags, and no reward here pays without them: add an sft "
            "section, or `tag_count`, or leave `strict` out",
        )


def _learned_warnings(recipe: Recipe) -> Iterator[Finding]:
    """A policy that is optimised against a reward model long enough is rewarded for the model's mistakes (Gao et al.
    2022, arXiv:2210.10760)."""
    if LEARNED not in recipe.rewards:
        return
    key = ("rewards", LEARNED)
    if not any(recipe.weights.get(name, 0) > 0 for name in TRUTH):
        message = "a reward model alone is gamed: put a rule beside it that says what is right, such as correct_answer"
        yield finding(recipe, "warning", key, message)
    if not setting(recipe, "grpo", "beta"):
        message = "without a KL term nothing keeps the policy near what the reward model has seen: grpo.beta, say 0.04"
        yield finding(recipe, "note", key, message)


def _held_out_warnings(recipe: Recipe) -> Iterator[Finding]:
    held_out, choosing = recipe.data.validation, recipe.evaluate.checkpoint_problems
    left = held_out - choosing if setting(recipe, "grpo", "eval_steps") else held_out
    if 0 < left < FEW:
        of = f" ({choosing} of the {held_out} choose the checkpoint)" if left < held_out else ""
        message = f"{left} problems are left to compare the stages{of}, too few to show a gain: raise it"
        yield finding(recipe, "warning", ("data", "validation"), message)


def finding(recipe: Recipe, level: str, keys: tuple, message: str) -> Finding:
    return Finding(level, recipe.place(*keys), f"{'.'.join(keys)}: {message}")
