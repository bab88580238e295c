"""Rules for single values: numbers, expressions, times of day, numbers in a base, ratios, words."""

import re
from fractions import Fraction

from rewards.verifier.context import Context
from rewards.verifier.kinds import Clock, Expr, InBase, Quantity, Ratio, Words
from rewards.verifier.notation import SCALES, base_named, key, number, plain
from rewards.verifier.question import BASE, INTO_BASE, PERCENT
from rewards.verifier.units import AMOUNTS

UNREAD = re.compile(r"""['"$`]|\.\.\.""")  # what the algebra's parser passes over


def quantities(g: Quantity, a: Quantity, context: Context) -> bool:
    """Numbers are equal exactly; the question settles percent signs, "quarters" and "how many million"."""
    question = context.question or ""
    if g.unit and a.unit and g.unit != a.unit and (g.unit, a.unit) != ("£", "lb"):  # "5 pounds"
        return False
    if _is_amount(g, a, question):
        return g.value == a.value * AMOUNTS[a.unit] and not g.unit and not g.percent
    scale = next((s for s in SCALES if a.written.endswith(s)), None)
    if scale and f"how many {scale}" in question and g.value == a.value / SCALES[scale]:
        return g.percent == a.percent
    if g.percent != a.percent and (g.unit or a.unit):
        return False
    if g.percent == a.percent:
        return g.value == a.value
    percent, share = (g, a) if g.percent else (a, g)
    if a.percent and PERCENT.of(question.replace("\\%", "percent").replace("%", "percent")):
        return g.value == a.value
    if share.value.denominator > 1 and percent.value == share.value * 100:
        return True
    if g.percent or context.question is None:
        # Without the question: a gold up to 1 may be a share, of which so many percent are another number.
        return g.value == a.value and (g.percent or g.value > 1)
    return False


def _is_amount(g: Quantity | Expr, a: Quantity | Expr, question: str) -> bool:
    """Whether the "quarters" of an answer are parts, where neither gold nor question has them as things."""
    return a.unit in AMOUNTS and a.unit != g.unit and f"how many {a.unit}s" not in question


def expressions(g: Expr, a: Expr | Quantity, context: Context) -> bool:
    """Expressions, or an expression and the number it may come to."""
    if g.unit and a.unit and g.unit != a.unit:
        return False
    radians = a.unit.startswith("deg") and not g.unit and r"\pi" in g.text
    if radians or _is_amount(g, a, context.question or ""):
        return False
    if isinstance(a, Expr):
        return same_texts(g.text, a.text, context)
    return not a.percent and same_texts(g.text, rf"\frac{{{a.value.numerator}}}{{{a.value.denominator}}}", context)


def same_texts(g: str, a: str, context: Context, worked_out: bool = True) -> bool:
    """Whether two expressions are equal, by their spelling or else by algebra."""
    if key(g) == key(a):
        return True
    if UNREAD.search(g) or UNREAD.search(a):
        return False
    if (len(g) == 1 and len(a) == 1) or variables(g) != variables(a) or {g, a} & {r"\infty", r"-\infty"}:
        return False
    return context.algebra.equal(plain(g), plain(a), worked_out)


def variables(text: str) -> set[str]:
    """The letters of an expression, but for those of commands and of e, i and d."""
    letters = set(re.findall(r"[A-Za-z]", re.sub(r"\\[a-zA-Z]+", " ", plain(text))))
    letters |= set(re.findall(r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma)(?![a-zA-Z])", plain(text)))
    return letters - {"e", "i", "d"}


def times(g: Clock | Ratio | Quantity, a: Clock | Ratio | Quantity, context: Context) -> bool:
    """A time against a time, a ratio that may be one (`3:30`), or a number of hours."""
    if isinstance(g, Clock) and isinstance(a, Clock):
        same = g.minutes == a.minutes
        return same if g.half or not a.half else same or (g.minutes + 720) % 1440 == a.minutes
    clock, other = (g, a) if isinstance(g, Clock) else (a, g)
    if isinstance(other, Quantity):
        return clock.half is None and other.value * 60 == clock.minutes
    if len(other.terms) != 2 or not all(term.isdigit() for term in other.terms):
        return False
    hour, minute = map(int, other.terms)
    minutes = hour * 60 + minute
    # A gold "3:30" leaves the half of the day open, an answer must not.
    if other is g and clock.minutes == minutes + 720:
        return True
    return clock.minutes == minutes and (hour > 12 or hour == 0 or other is g)


def based(g: InBase | Quantity | Expr, a: InBase | Quantity | Expr, context: Context) -> bool:
    """A number in a base against its digits; the base may be dropped where it was asked for."""
    based, other = (g, a) if isinstance(g, InBase) else (a, g)
    if isinstance(other, InBase) or (isinstance(other, Quantity) and (other.unit or other.percent)):
        return False
    digits = other.written if isinstance(other, Quantity) else other.text
    # The base may be dropped where it was asked for: the gold or the question tells.
    asked = based is g or _base_asked(based.base, context.question or "")
    return bool(asked or based.base == 10) and digits.replace(" ", "").lstrip("0") == based.digits


def _base_asked(base: int, question: str) -> bool:
    """Whether the question tells the base, and it is this one."""
    if not BASE.of(question):
        return False
    into = [next(filter(None, groups)) for groups in INTO_BASE.pattern.findall(question)]
    return not into or base_named(into[-1]) in (None, base)


def ratios(g: Ratio | Quantity, a: Ratio | Quantity, context: Context) -> bool:
    """Ratios are equal in proportion, `2:3` and `4:6`, unless they may be times."""
    p, q = _terms(g), _terms(a)
    if p is None or q is None or len(p) != len(q):
        return False
    if all(isinstance(x, Ratio) and len(x.terms) == len(x.terms[1]) == 2 and x.terms[1] < "60" for x in (g, a)):
        return p == q  # they may be times
    return all(x * q[0] == y * p[0] for x, y in zip(p, q, strict=True)) and bool(p[0]) == bool(q[0])


def _terms(x: Ratio | Quantity) -> list[Fraction] | None:
    """The terms of a ratio; those of a fraction are its numerator and denominator."""
    if isinstance(x, Ratio):
        return [number(term) for term in x.terms]
    return None if x.unit or x.percent else [Fraction(x.value.numerator), Fraction(x.value.denominator)]


def words(g: Words | Expr, a: Words | Expr, context: Context) -> bool:
    """Words are equal without case, punctuation, articles and "it is"."""
    # The letters alone do not tell -\infty from \infty, and a - b not from ab.
    if any(isinstance(x, Expr) and re.search(r"[-+*/^_=<>|!']", x.text) for x in (g, a)):
        return False
    texts = [re.sub(r"[^\w]+", " ", re.sub(r"\\text", "", x.text)).casefold().strip() for x in (g, a)]
    bare = [re.sub(r"^(?:(?:it|the \w+) is )?(?:(?:a|an|the|on) )?", "", t) for t in texts]
    return bool(bare[0]) and bare[0] == bare[1]
