"""Whether two typed values say the same: a table of which pairs of types are compared by which rule.

A rule compares by number, text and structure, and asks the algebra about what is left. Values of two types that share
no rule are different.
"""

from rewards.verifier import compare_items as items
from rewards.verifier import compare_relations as relations
from rewards.verifier import compare_scalars as scalars
from rewards.verifier.context import Algebra, Context, Rule
from rewards.verifier.kinds import (
    TYPES,
    Clock,
    Expr,
    InBase,
    Interval,
    List,
    Matrix,
    Measure,
    Quantity,
    Ratio,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
    Words,
)


def _both_ways(one: type, *others: type) -> list[tuple[type, type]]:
    return [(one, other) for other in others] + [(other, one) for other in others]


_VALUES = [x for x in TYPES if x is not Relation]
# A gold number has no rule for an expression, which is left unevaluated.
RULES = [
    Rule("as numbers", [(Quantity, Quantity)], scalars.quantities),
    Rule("as expressions", [(Expr, Expr), (Expr, Quantity)], scalars.expressions),
    Rule("as words", [(Words, Words), *_both_ways(Words, Expr)], scalars.words),
    Rule("as times of day", [(Clock, Clock), *_both_ways(Clock, Ratio, Quantity)], scalars.times),
    Rule("as numbers in a base", [(InBase, InBase), *_both_ways(InBase, Quantity, Expr)], scalars.based),
    Rule("as ratios", [(Ratio, Ratio), *_both_ways(Ratio, Quantity)], scalars.ratios),
    Rule("as measures", [(Measure, Measure)], lambda g, a, context: items.ordered(g.parts, a.parts, context)),
    Rule("as tuples", [(Tuple, Tuple)], lambda g, a, context: items.ordered(g.items, a.items, context)),
    Rule("as intervals or points", [(Interval, Interval)], items.intervals),
    Rule("as matrices", [(Matrix, Matrix)], items.matrices),
    Rule("as columns", _both_ways(Matrix, Tuple, Interval), items.columns),
    Rule("as named values", _both_ways(List, Tuple, Interval), items.named),
    Rule("as lists or sets", [(List, List), (Set, Set), *_both_ways(List, Set)], items.lists),
    Rule("as a set of one", _both_ways(Set, Quantity, Expr, Words, InBase), items.only_element),
    Rule("as unions", [(Union, Union)], lambda g, a, context: items.unordered(g.items, a.items, context)),
    Rule("as a union's elements", [(Union, Set)], items.elements),
    Rule("as relations", [(Relation, Relation)], relations.relations),
    Rule("as the value of the gold's relation", [(Relation, x) for x in _VALUES], relations.value_of_gold),
    Rule("as the value of the answer's relation", [(x, Relation) for x in _VALUES], relations.value_of_answer),
]
_RULE = {pair: rule for rule in RULES for pair in rule.pairs}


def compare(gold: Value, answer: Value, question: str | None, algebra: Algebra) -> tuple[bool, str]:
    """Whether the typed `answer` says the same as the typed `gold`, and by which rule. Raises what `algebra` raises."""
    rule = _RULE.get((type(gold), type(answer)))
    if rule is None:
        return False, "not equal to the gold, another kind of value"
    context = Context(question.lower() if question else None, algebra, _RULE)
    right = gold == answer or rule.holds(gold, answer, context)
    return right, f"equal, {rule.name}" if right else f"not equal to the gold, {rule.name}"
