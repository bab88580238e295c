"""Rules for values made of others: tuples, intervals, matrices, lists, sets, unions."""

from collections.abc import Sequence

from rewards.verifier.context import Context
from rewards.verifier.kinds import Interval, List, Matrix, Relation, Set, Tuple, Union, Value
from rewards.verifier.value import is_name, value

_MAX_ITEMS = 40


def ordered(gs: Sequence[Value], items: Sequence[Value], context: Context) -> bool:
    """Whether the items are the same one by one."""
    return len(gs) == len(items) <= _MAX_ITEMS and all(context.same(g, a) for g, a in zip(gs, items, strict=True))


def unordered(gs: Sequence[Value], items: Sequence[Value], context: Context) -> bool:
    """Whether the items are the same in some order."""
    if not len(gs) == len(items) <= _MAX_ITEMS:
        return False
    left = list(items)
    for g in gs:
        found = next((n for n, a in enumerate(left) if context.same(g, a)), None)
        if found is None:
            return False
        del left[found]
    return True


def intervals(g: Interval, a: Interval, context: Context) -> bool:
    """Intervals have the same brackets and ends."""
    return (g.left_open, g.right_open) == (a.left_open, a.right_open) and ordered(g.items, a.items, context)


def columns(g: Matrix | Tuple | Interval, a: Matrix | Tuple | Interval, context: Context) -> bool:
    """A point and a matrix of one column."""
    gs, items = _coordinates(g), _coordinates(a)
    return gs is not None and items is not None and ordered(gs, items, context)


def _coordinates(x: Matrix | Tuple | Interval) -> tuple | None:
    """The values of a point or of a matrix of one column."""
    if isinstance(x, Matrix):
        return tuple(row[0] for row in x.rows) if all(len(row) == 1 for row in x.rows) else None
    return x.items if isinstance(x, Tuple) or (x.left_open and x.right_open) else None


def matrices(g: Matrix, a: Matrix, context: Context) -> bool:
    """Matrices are the same cell by cell."""
    if not len(g.rows) == len(a.rows) <= _MAX_ITEMS:
        return False
    return all(ordered(row, other, context) for row, other in zip(g.rows, a.rows, strict=True))


def named(g: List | Tuple | Interval, a: List | Tuple | Interval, context: Context) -> bool:
    """`x = 3, y = 5` with the names in alphabetical order is the point of the values."""
    names, point = (g, a) if isinstance(g, List) else (a, g)
    coordinates = _coordinates(point)
    if coordinates is None or not _named_in_order(names):
        return False
    values = [value(i.sides[1]) for i in names.items]
    return ordered(values, coordinates, context) if names is g else ordered(coordinates, values, context)


def _named_in_order(items: List) -> bool:
    if not all(isinstance(i, Relation) and i.signs == ("=",) and is_name(i.sides[0]) for i in items.items):
        return False
    names = [i.sides[0] for i in items.items]
    return names == sorted(set(names))


def lists(g: List | Set, a: List | Set, context: Context) -> bool:
    """Lists and sets are equal in any order, but a list that says which value is whose keeps it."""
    if isinstance(g, List) and _has_names(g) and not any(isinstance(i, Relation) for i in a.items):
        # `x = 1, y = 2` says which value is whose; without names only their order does.
        return isinstance(a, List) and ordered(g.items, a.items, context)
    return unordered(g.items, a.items, context)


def _has_names(items: List) -> bool:
    return (
        all(isinstance(i, Relation) and is_name(i.sides[0]) for i in items.items)
        and len({i.sides[0] for i in items.items}) > 1
    )


def elements(g: Union, a: Set, context: Context) -> bool:
    """A union of sets is the set of their elements."""
    if not all(isinstance(i, Set) for i in g.items):
        return False
    return unordered([element for i in g.items for element in i.items], a.items, context)


def only_element(g: Value, a: Value, context: Context) -> bool:
    """A set of one element is that element."""
    if isinstance(g, Set):
        return len(g.items) == 1 and context.same(g.items[0], a)
    return len(a.items) == 1 and context.same(g, a.items[0])
