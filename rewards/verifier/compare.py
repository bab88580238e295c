r"""Whether two typed values say the same: a table of which pairs of types are compared by which
rule.

A rule compares by number, text and structure, and asks the algebra about what they do not decide.
Values of two types that share no rule are different.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from . import relations, single_values
from .context import Algebra, Context, Rule
from .phrases import asks_for
from .tables import patterns
from .value import is_name, value
from .value_types import (
    TYPES,
    Expr,
    InBase,
    Interval,
    List,
    Matrix,
    Quantity,
    Ratio,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
    Words,
)

_MAX_ITEMS = 40
Point = Matrix | Tuple | Interval
_SCALAR = Quantity | Expr | Words | InBase | Ratio
_PATTERNS = {name: re.compile(pattern) for name, pattern in patterns("parts.tsv")}


@lru_cache(maxsize=4096)
def _parts_asked_for(question: str, count: int) -> list[str]:
    """The names of the `count` parts that the question asks for, in its order: `p` and `q`, "wins,
    losses and ties", or an empty name for every part of "how many of each"; none where it names no
    parts, or another number of them."""
    if re.search(r"\b(?:either|any) order\b", question):
        return []
    text = re.sub(r"\\[()]|\\text\{([^{}]*)\}|\$", r" \1", question)
    text = re.sub(r"\s+", " ", text).replace("( ", "(")
    for kind in ("point", "letters", "things"):
        for match in _PATTERNS[kind].finditer(text):
            names = _PATTERNS["separator"].split(match[1].strip())
            if len(names) == count:
                return names
    return [""] * count if _PATTERNS["of each"].search(text) else []


def _parts_of(gold: List | Point, question: str) -> list[str]:
    """The names that the question gives to the single values of a gold."""
    items = () if isinstance(gold, Matrix) else gold.items
    if len(items) > _MAX_ITEMS or not all(isinstance(item, _SCALAR) for item in items):
        return []
    return _parts_asked_for(question, len(items))


def _in_order(answer: List, parts: list[str]) -> list[Value]:
    """The values of a list, those that have names in the order of the question's `parts`; none
    where they have the names of something else."""
    names = [name.lower().replace("{", "").replace("}", "") for name in _names(answer)]
    wanted = [part.replace("{", "").replace("}", "") for part in parts]
    if not names:
        return list(answer.items)
    are_letters = all(map(_PATTERNS["letter"].fullmatch, parts))
    if set(names) == set(wanted) and len(set(names)) == len(names):
        values = dict(zip(names, _named_values(answer), strict=True))
        return [values[name] for name in wanted]
    return [] if are_letters else _named_values(answer)


def ordered(golds: Sequence[Value], answers: Sequence[Value], context: Context) -> bool:
    """Whether the values are the same one by one."""
    if len(golds) != len(answers) or len(golds) > _MAX_ITEMS:
        return False
    return all(context.same(gold, answer) for gold, answer in zip(golds, answers, strict=True))


def unordered(golds: Sequence[Value], answers: Sequence[Value], context: Context) -> bool:
    """Whether the values are the same in some order."""
    if len(golds) != len(answers) or len(golds) > _MAX_ITEMS:
        return False
    unmatched = list(answers)
    for gold in golds:
        match = next((n for n, answer in enumerate(unmatched) if context.same(gold, answer)), None)
        if match is None:
            return False
        del unmatched[match]
    return True


def intervals(gold: Interval, answer: Interval, context: Context) -> bool:
    """Intervals have the same brackets and ends."""
    if (gold.left_open, gold.right_open) != (answer.left_open, answer.right_open):
        return False
    return ordered(gold.items, answer.items, context)


def columns(gold: Point, answer: Point, context: Context) -> bool:
    """A point and a matrix of one column have the same coordinates."""
    expected = _coordinates(gold)
    written = _coordinates(answer)
    return expected is not None and written is not None and ordered(expected, written, context)


def _coordinates(point: Point) -> tuple | None:
    """The values of a point or of a matrix of one column, None for any other value."""
    if isinstance(point, Matrix):
        if all(len(row) == 1 for row in point.rows):
            return tuple(row[0] for row in point.rows)
        return None
    if isinstance(point, Tuple) or (point.left_open and point.right_open):
        return point.items
    return None


def matrices(gold: Matrix, answer: Matrix, context: Context) -> bool:
    """Matrices are the same cell by cell."""
    if len(gold.rows) != len(answer.rows) or len(gold.rows) > _MAX_ITEMS:
        return False
    rows = zip(gold.rows, answer.rows, strict=True)
    return all(ordered(gold_row, answer_row, context) for gold_row, answer_row in rows)


def named_values(gold: List | Point, answer: List | Point, context: Context) -> bool:
    """`x = 3, y = 5` with the names in alphabetical order is the point of the values."""
    named = gold if isinstance(gold, List) else answer
    coordinates = _coordinates(answer if named is gold else gold)
    if coordinates is None:
        return False
    names = _names(named)
    values = named.items
    parts = _parts_of(gold, context.question)
    if names:
        if len(set(names)) < len(names) or any(item.signs != ("=",) for item in values):
            return False
        by_name = List(tuple(sorted(values, key=lambda item: item.sides[0])))
        values = _in_order(by_name, parts) or _named_values(by_name)
    elif not parts and not _asks_for_order(context.question):
        if not asks_for("a point", context.question):
            return False
    if named is gold:
        return ordered(values, coordinates, context)
    return ordered(coordinates, values, context)


def _asks_for_order(question: str) -> bool:
    """Whether a sentence that tells what to answer names an order: not "three integers written in
    increasing order have the sum 12"."""
    for sentence in _PATTERNS["sentence"].split(question):
        if not _PATTERNS["request"].search(sentence):
            sentence = _PATTERNS["written in order"].sub("", sentence)
        if asks_for("an order", sentence):
            return True
    return False


def _names(named: List) -> list[str]:
    """The names in `x = 3, y = 5`; none where an item has no name."""
    for item in named.items:
        if not isinstance(item, Relation) or not is_name(item.sides[0]):
            return []
    return [item.sides[0] for item in named.items]


def _named_values(named: List) -> list[Value]:
    return [value(item.sides[-1]) for item in named.items]


def lists(gold: List | Set | Union, answer: List | Set | Union, context: Context) -> bool:
    """Lists and sets are equal in any order, but a list that says which value is whose keeps it,
    and one whose order or whose parts the question names."""
    if isinstance(gold, Set | Union):
        return unordered(gold.items, answer.items, context)
    names = _names(gold)
    if not names and _asks_for_order(context.question):
        return isinstance(answer, List) and ordered(gold.items, answer.items, context)
    parts = [] if names else _parts_of(gold, context.question)
    if parts:
        values = _in_order(answer, parts) if isinstance(answer, List) else []
        return ordered(gold.items, values, context)
    return _named_lists(gold, answer, names, context)


def _named_lists(
    gold: List, answer: List | Set | Union, names: list[str], context: Context
) -> bool:
    """x_1 = 1, x_2 = 2 are x = 1 or x = 2; but `x = 1, y = 2` says which value is whose, and
    without names their order.

    Args:
        names: those of the gold's values.
    """
    letters = {re.sub(r"_\{?\w+\}?$", "", name) for name in names}
    has_relations = any(isinstance(item, Relation) for item in answer.items)
    if len(set(names)) > 1 and not has_relations:
        if len(letters) == 1:
            return unordered(_named_values(gold), answer.items, context)
        is_named_once = len(set(names)) == len(names)
        is_list = isinstance(answer, List) and is_named_once
        return is_list and ordered(gold.items, answer.items, context)
    if isinstance(answer, List) and len(letters) == 1 and letters == set(_names(answer)):
        return unordered(_named_values(gold), _named_values(answer), context)
    return unordered(gold.items, answer.items, context)


def only_element(gold: Value, answer: Value, context: Context) -> bool:
    """A set of one element is that element, and the empty set is no solution."""
    if Words("no solution") in (gold, answer):
        return Set(()) in (gold, answer)
    if isinstance(gold, Set):
        return len(gold.items) == 1 and context.same(gold.items[0], answer)
    return len(answer.items) == 1 and context.same(gold, answer.items[0])


# ---- the table


def _both_ways(first: type, *partners: type) -> list[tuple[type, type]]:
    pairs = [(first, partner) for partner in partners]
    return pairs + [(partner, first) for partner in partners]


_VALUES = [kind for kind in TYPES if kind is not Relation]
# A gold number has no rule for an expression, which is left unevaluated.
RULES = [
    Rule("as numbers", [(Quantity, Quantity)], single_values.quantities),
    Rule("as expressions", [(Expr, Expr), (Expr, Quantity)], single_values.expressions),
    Rule("as words", [(Words, Words), *_both_ways(Words, Expr)], single_values.words),
    Rule(
        "as numbers in a base",
        [(InBase, InBase), *_both_ways(InBase, Quantity, Expr)],
        single_values.numbers_in_base,
    ),
    Rule("as ratios", [(Ratio, Ratio), *_both_ways(Ratio, Quantity)], single_values.ratios),
    Rule("as tuples", [(Tuple, Tuple)], columns),
    Rule("as intervals or points", [(Interval, Interval)], intervals),
    Rule("as matrices", [(Matrix, Matrix)], matrices),
    Rule("as columns", _both_ways(Matrix, Tuple, Interval), columns),
    Rule("as named values", _both_ways(List, Tuple, Interval, Matrix), named_values),
    Rule(
        "as lists, sets or unions",
        [(List, List), (Set, Set), (Union, Union), *_both_ways(List, Set)],
        lists,
    ),
    Rule("as a set of one", _both_ways(Set, Quantity, Expr, Words, InBase), only_element),
    Rule("as relations", [(Relation, Relation)], relations.relations),
    Rule(
        "as the value of the gold's relation",
        [(Relation, kind) for kind in _VALUES],
        relations.value_of_gold,
    ),
    Rule(
        "as the value of the answer's relation",
        [(kind, Relation) for kind in _VALUES],
        relations.value_of_answer,
    ),
]
_RULE_OF_PAIR = {pair: rule for rule in RULES for pair in rule.pairs}


def compare(gold: Value, answer: Value, question: str | None, algebra: Algebra) -> tuple[bool, str]:
    """Whether the typed `answer` says the same as the typed `gold`, and by which rule. Raises what
    `algebra` raises."""
    rule = _RULE_OF_PAIR.get((type(gold), type(answer)))
    if rule is None:
        return False, "not equal to the gold, another kind of value"
    context = Context((question or "").lower(), algebra, _RULE_OF_PAIR)
    if context.same(gold, answer):
        return True, f"equal, {rule.name}"
    return False, f"not equal to the gold, {rule.name}"
