"""What a rule of comparison looks at beside the gold and the answer: the question, the algebra, and
the rules for their parts."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

from .value_types import Value

# the module algebra, or what stands for it where it may not run
Algebra = ModuleType | SimpleNamespace


class Unreadable(Exception):
    """The text is no mathematics that the algebra's parser knows."""


class Rule(NamedTuple):
    """`holds(gold, answer, context)` decides for these `pairs` of types; `name` ends the reason of
    the verdict."""

    name: str
    pairs: list[tuple[type, type]]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Context:
    """What a rule may look at beside the two values."""

    question: str  # in lower case; empty where none is given
    algebra: Algebra
    rules: dict[tuple[type, type], Rule]

    def same(self, gold: Value, answer: Value) -> bool:
        """Whether a part of the answer says the same as a part of the gold."""
        rule = self.rules.get((type(gold), type(answer)))
        return rule is not None and (gold == answer or rule.holds(gold, answer, self))
