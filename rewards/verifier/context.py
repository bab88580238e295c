"""What a comparison may look at beside the two values: the question, the algebra, and the rules for their parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from rewards.verifier.kinds import Value


class Unreadable(Exception):
    """The text is no mathematics that the algebra's parser knows."""


class Algebra(Protocol):
    """What decides about expressions: rewards.verifier.algebra, or a stand-in where it may not run."""

    def equal(self, gold: str, answer: str, worked_out: bool = True) -> bool: ...

    def equal_relations(self, gold: tuple[str, str, str], answer: tuple[str, str, str]) -> bool: ...

    def close(self, exact: str, rounded: Fraction, places: int) -> bool: ...


class Rule(NamedTuple):
    """`holds(gold, answer, context)` decides for these `pairs` of types; `name` ends the reason of the verdict."""

    name: str
    pairs: list[tuple[type, type]]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Context:
    """Handed to every rule."""

    question: str | None  # in lower case
    algebra: Algebra
    rules: Mapping[tuple[type, type], Rule]

    def same(self, gold: Value, answer: Value) -> bool:
        """Whether a part of the answer says the same as a part of the gold."""
        rule = self.rules.get((type(gold), type(answer)))
        return rule is not None and (gold == answer or rule.holds(gold, answer, self))
