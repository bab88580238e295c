r"""Whether an answer says the same as the gold: the rule of docs/rewards.md, cheap steps first.

`judge` runs in the trainer's process and raises `NeedsAlgebra` where exact numbers, text and structure do not decide;
`judge_by_algebra` is the same rule in a worker process, with the algebra to ask.
"""

import re
from fractions import Fraction
from math import gcd, prod

from rewards.extract import is_hedged
from rewards.notation import key, number, plain
from rewards.units import another_was_asked
from rewards.value import (
    INFINITY,
    MINUS_INFINITY,
    Clock,
    Expr,
    InBase,
    Items,
    Quantity,
    Relation,
    Words,
    is_left_side,
    is_name,
    value,
)

MAX_LENGTH = 1000  # characters of an answer; longer ones are right only when spelled like the gold
_MAX_DEPTH = 20
_MAX_EXPONENT = 9999
_MAX_ITEMS = 40


_UNWORKED = re.compile(r"\\(?:sum|prod|int|lim)(?![a-z])|[∑∏∫]")


_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)


class NeedsAlgebra(Exception):
    """Only algebra can tell."""


class _NoAlgebra:
    """Stands for the algebra in the trainer's process."""

    def equal(self, gold: str, answer: str, worked_out: bool = True) -> bool:
        raise NeedsAlgebra

    def equal_relations(self, gold: tuple[str, str, str], answer: tuple[str, str, str]) -> bool:
        raise NeedsAlgebra


def judge_by_algebra(gold: str, answers: list[str], question: str | None) -> tuple[bool | None, str]:
    """`judge`, in a worker process."""
    from rewards import algebra

    try:
        return judge(gold, answers, question, algebra)
    except algebra.Unreadable:
        return None, "the gold cannot be read as mathematics"


def judge(gold: str, answers: list[str], question: str | None, algebra=_NoAlgebra()) -> tuple[bool | None, str]:  # noqa: B008
    """(right, reason) for all the `answers` a response gives: each must be right, or together be a gold of several values."""
    several = len(answers) > 1 and len({key(a) for a in answers}) > 1
    if several and _has_several_values(gold):
        return _judge_one(gold, ", ".join(answers), question, algebra)
    verdicts = [_judge_one(gold, a, question, algebra) for a in dict.fromkeys(answers)]
    wrong = next((v for v in verdicts if not v[0]), None)
    if wrong and several:
        return False, "several different answers"
    return wrong or verdicts[0]


def _has_several_values(gold: str) -> bool:
    typed = value(gold)
    return isinstance(typed, Items) and typed.kind in (",", "{}", "U")


def _judge_one(gold: str, answer: str, question: str | None, algebra) -> tuple[bool | None, str]:
    if _WHOLE.fullmatch(gold) and _WHOLE.fullmatch(answer):  # the most frequent case by far, and all of GSM8K
        return (True, "equal") if int(gold) == int(answer) else (False, "not equal to the gold")
    if not answer.strip():
        return False, "empty answer"
    if len(answer) > MAX_LENGTH:
        return (True, "spelled like the gold") if answer.strip() == gold.strip() else (False, "too long for an answer")
    if key(gold) == key(answer):
        return True, "spelled like the gold"
    if is_hedged(answer) and not is_hedged(gold):
        return False, "doubted or denied"
    letter = _choice(gold, answer, question, algebra)
    if letter is not None:
        return letter
    if value(gold) in (Words("yes"), Words("no")) and (
        said := re.fullmatch(r"(?i)(yes|no)[,.;:] [^?]*", answer.strip())
    ):
        opposite = {"yes": "no", "no": "yes"}[said[1].lower()]
        return Words(said[1].lower()) == value(gold) and not re.search(rf"(?i)\b{opposite}\b", answer), "the first word"
    if (refusal := _too_large(answer)) is not None:
        return False, refusal
    if (sign := _UNWORKED.search(answer)) and sign[0] not in gold:
        return False, "left unevaluated"
    if _too_large(gold) is not None:
        return None, "the gold is beyond the limits of the algebra"
    g, a = value(gold), value(answer)
    if question and _copied(g, a, gold, answer, question):
        return False, "copied from the question"
    if question and isinstance(a, Quantity) and isinstance(g, Quantity):
        if not g.unit and another_was_asked(a.unit, question):
            return False, "another unit than the question asks for"
        if _not_reduced(a) and re.search(r"lowest terms|simplest (?:form|terms)|reduced|simplif", question.lower()):
            return False, "not in lowest terms"
    return (True, "equal") if Comparison(question, algebra).same(g, a) else (False, "not equal to the gold")


def _too_large(text: str) -> str | None:
    """Why `text` is not given to the algebra: nesting or powers that would keep it busy."""
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    if deepest > _MAX_DEPTH:
        return f"nested deeper than {_MAX_DEPTH}"
    spelled = plain(text)
    exponents = re.findall(r"\^\s*\{?\s*[+-]?\s*(\d+)", spelled)
    if any(len(digits) > 4 for digits in exponents):
        return f"an exponent above {_MAX_EXPONENT}"
    if prod(int(digits) for digits in exponents if len(digits) > 2) > _MAX_EXPONENT**2 or _tower(spelled):
        return "a tower of powers"
    if (
        re.search(r"\d{4}\s*[})]*\s*!|!\s*[})]*\s*!", spelled)
        or re.search(r"\\binom|choose", spelled)
        and re.search(r"\d{4}", spelled)
    ):
        return "a factorial of a large number"
    return None


def _tower(text: str) -> bool:
    """Whether exponents are nested more than two deep."""
    stack, deepest = [0], 0
    power = False
    for at, char in enumerate(text):
        if char == "^":
            power = True
            deepest = max(deepest, stack[-1] + 1)
        elif char == "{":
            stack.append(stack[-1] + power)
            power = False
        elif char == "}" and len(stack) > 1:
            stack.pop()
        elif not char.isspace():
            power = power and text[at - 1] != "^"
    return deepest > 2


def _not_reduced(typed) -> bool:
    """Whether a fraction is written with a common factor."""
    if _form(typed, "") not in ("fraction", "mixed number"):
        return False
    top, bottom = re.findall(r"\d+", typed.written.replace(",", ""))[-2:]
    return "." not in typed.written and gcd(int(top), int(bottom)) > 1


def _form(typed, text: str) -> str:
    """The way an answer is written, where a problem may ask for another: an expression's form is its spelling."""
    if isinstance(typed, Quantity):
        if "/" in typed.written or "frac" in typed.written:
            return (
                "mixed number" if len(re.findall(r"\d+(?:\.\d+)?", typed.written.replace(",", ""))) > 2 else "fraction"
            )
        return "percent" if typed.percent else "whole number" if typed.value.denominator == 1 else "decimal"
    if isinstance(typed, Expr):
        return key(text)
    return "inequality" if re.search(r"[<>]|\\[lg]e(?![a-z])", plain(text)) else type(typed).__name__


def _copied(g, a, gold: str, answer: str, question: str) -> bool:
    """Whether `answer` stands in the question in another form than the gold's: the task, not its result."""
    form = _form(a, answer)
    if form == "whole number" or (form == _form(g, gold) and not _not_reduced(a)):
        return False
    return re.search(rf"(?<!\d){re.escape(key(answer))}(?!\d)", key(question)) is not None


_CHOICE = re.compile(
    r"(?i:(?:the )?(?:option|choice|answer)(?: is)?:?\s*)?(?:\\text\{\s*)?"
    r"(?:[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])\s*(?:[).:]|$))\s*\}?\s*[.:,]?\s*(.*)"
)
_OPTION = re.compile(r"(?:\\text(?:bf)?\{\s*)?\(\s*([A-J])\s*\)\s*\}?~?|(?:^|\n)\s*([A-J])\s*[.):]\s")


def _choice(gold: str, answer: str, question: str | None, algebra) -> tuple[bool | None, str] | None:
    """The verdict where the gold is the letter of an option, or the answer is one and the question lists options."""
    wanted, given = _CHOICE.fullmatch(plain(gold)), _CHOICE.fullmatch(plain(answer))
    letter = given and (given[1] or given[2]).upper()
    options = _options(question) if question else {}
    if wanted and not wanted[3] and (g := wanted[1] or wanted[2]) in "ABCDEFGHIJ":
        if given and (given[1] or given[2]) in "ABCDEFGHIJabcdefghij":
            rest = given[3]
            listed = re.search(r"(?<![A-Za-z])[A-J]\s*[).:]", rest) or re.match(r"(?:or|and|/|&)\b|[A-J]\b", rest)
            right = letter == g and not listed and (not rest or g not in options or _agree(options[g], rest, algebra))
            return right, "the option" if right else "another option"
        if g in options:
            return Comparison(question, algebra).same(
                value(options[g]), value(answer)
            ), "compared with the option's text"
    elif letter in options and given and not given[3]:
        return Comparison(question, algebra).same(
            value(gold), value(options[letter])
        ), "compared with the option's text"
    return None


def _agree(option: str, rest: str, algebra) -> bool:
    return key(option) == key(rest) or Comparison(None, algebra).same(value(option), value(rest))


def _options(question: str) -> dict[str, str]:
    marks = list(_OPTION.finditer(question))
    if len(marks) < 2:
        return {}
    ends = [m.start() for m in marks[1:]] + [len(question)]
    return {(m[1] or m[2]): question[m.end() : end].strip(" \n$\\~,;") for m, end in zip(marks, ends, strict=True)}


class Comparison:
    """Typed values compared in the light of the question; `algebra` decides what their form does not."""

    def __init__(self, question: str | None, algebra) -> None:
        self.question = question.lower() if question else None
        self.algebra = algebra

    def same(self, g, a) -> bool:
        """Whether the typed answer `a` says the same as the typed gold `g`."""
        if g == a:
            return True
        if isinstance(g, Relation) and g.signs[0] == r"\approx" and not g.sides[0]:
            g = value(g.sides[1])
        if isinstance(g, Relation) or isinstance(a, Relation):
            return self._relation(g, a)
        if isinstance(g, Items) or isinstance(a, Items):
            return self._items(g, a)
        if isinstance(g, Clock) or isinstance(a, Clock):
            return self._clock(g, a)
        if isinstance(g, InBase) or isinstance(a, InBase):
            return self._in_base(g, a)
        if isinstance(g, Words) or isinstance(a, Words):
            return _same_words(g, a)
        if isinstance(g, Quantity):
            # An expression where a number is asked is left unevaluated.
            return isinstance(a, Quantity) and self._quantity(g, a)
        if g.unit and a.unit and g.unit != a.unit:
            return False
        return self._expression(g.text, a.written if isinstance(a, Quantity) else a.text)

    def _quantity(self, g: Quantity, a: Quantity) -> bool:
        if g.unit and a.unit and g.unit != a.unit:
            return False
        if g.percent == a.percent:
            return g.value == a.value
        percent, share = (g, a) if g.percent else (a, g)
        if share.value.denominator > 1 and percent.value == share.value * 100:
            return True
        if g.percent or self.question is None:
            # Without the question: a gold up to 1 may be a share, of which so many percent are another number.
            return g.value == a.value and (g.percent or g.value > 1)
        return g.value == a.value and "percent" in self.question.replace("%", "percent")

    def _expression(self, g: str, a: str, worked_out: bool = True) -> bool:
        if key(g) == key(a):
            return True
        if (len(g) == 1 and len(a) == 1) or _variables(g) != _variables(a) or {g, a} & {r"\infty", r"-\infty"}:
            return False
        return self.algebra.equal(plain(g), plain(a), worked_out)

    def _clock(self, g, a) -> bool:
        if isinstance(g, Clock) and isinstance(a, Clock):
            same = g.minutes == a.minutes
            return same if g.half or not a.half else same or (g.minutes + 720) % 1440 == a.minutes
        clock, other = (g, a) if isinstance(g, Clock) else (a, g)
        # A gold "3:30" leaves the half of the day open, an answer must not.
        if (
            isinstance(other, Items)
            and other.kind == ":"
            and len(other.items) == 2
            and all(i.isdigit() for i in other.items)
        ):
            hour, minute = map(int, other.items)
            minutes = hour * 60 + minute
            return (clock.minutes == minutes and (hour > 12 or other is g)) or (
                other is g and clock.minutes == minutes + 720
            )
        return clock.half is None and isinstance(other, Quantity) and other.value * 60 == clock.minutes

    def _in_base(self, g, a) -> bool:
        if isinstance(g, InBase) and isinstance(a, InBase):
            return g == a
        based, other = (g, a) if isinstance(g, InBase) else (a, g)
        digits = other.written if isinstance(other, Quantity) else other.text if isinstance(other, Expr) else ""
        if isinstance(other, Quantity) and (other.unit or other.percent):
            return False
        # The base may be dropped where it was asked for: the gold or the question tells.
        asked = based is g or (self.question is not None and "base" in self.question)
        return (asked or based.base == 10) and digits.replace(" ", "").lstrip("0") == based.digits

    def _items(self, g, a) -> bool:
        if (isinstance(g, Items) and isinstance(a, Clock)) or (isinstance(a, Items) and isinstance(g, Clock)):
            return self._clock(g, a)
        if ":" in (getattr(g, "kind", ""), getattr(a, "kind", "")):
            return self._ratio(g, a)
        g, a = _named_tuple(g, a), _named_tuple(a, g)
        if not isinstance(g, Items) or not isinstance(a, Items):
            one, other = (g, a) if isinstance(g, Items) else (a, g)
            return (
                one.kind in ("{}", ",")
                and len(one.items) == 1
                and self.same(*((one.items[0], other) if one is g else (other, one.items[0])))
            )
        if len(g.items) != len(a.items) or len(g.items) > _MAX_ITEMS:
            return False
        if {g.kind, a.kind} == {"matrix", "()"}:
            return self._ordered(_column(g), _column(a))
        if g.kind != a.kind and not {g.kind, a.kind} == {",", "{}"}:
            return False
        return self._unordered(g.items, a.items) if g.kind in (",", "{}", "U") else self._ordered(g.items, a.items)

    def _ordered(self, gs: tuple | None, items: tuple | None) -> bool:
        return gs is not None and items is not None and all(self.same(g, a) for g, a in zip(gs, items, strict=True))

    def _unordered(self, gs: tuple, items: tuple) -> bool:
        left = list(items)
        for g in gs:
            found = next((n for n, a in enumerate(left) if self.same(g, a)), None)
            if found is None:
                return False
            del left[found]
        return True

    def _ratio(self, g, a) -> bool:
        def parts(x) -> list[Fraction] | None:
            if isinstance(x, Items) and x.kind == ":":
                return [number(i) for i in x.items]
            if isinstance(x, Quantity) and not x.unit and not x.percent:
                return [Fraction(x.value.numerator), Fraction(x.value.denominator)]
            return None

        p, q = parts(g), parts(a)
        if p is None or q is None or len(p) != len(q):
            return False
        if any(isinstance(x, Items) and len(x.items[-1]) == 2 and x.items[-1] < "60" for x in (g, a)):
            return p == q  # it may be a time
        return all(x * q[0] == y * p[0] for x, y in zip(p, q, strict=True)) and bool(p[0]) == bool(q[0])

    def _relation(self, g, a) -> bool:
        if isinstance(g, Relation) and isinstance(a, Relation):
            g_name, a_name = g.sides[0], a.sides[0]
            if set(g.signs) == {"="} == set(a.signs) and is_name(g_name) and is_name(a_name):
                if key(g_name) == key(a_name):
                    return self.same(value(g.sides[-1]), self._meant(a) or Words(""))
            if len(g.signs) == len(a.signs) == 1 and g.signs[0] != r"\approx":
                return self.algebra.equal_relations((g.signs[0], *g.sides), (a.signs[0], *a.sides))
            return False
        if isinstance(a, Relation):
            meant = self._meant(a, isinstance(g, Quantity) and "." in g.written)
            return meant is not None and self.same(g, meant)
        # A gold "k = 3" may be answered by its value, a gold "0.56 = 56\\%" by either side, an equation by neither.
        sides = [value(side) for side in g.sides]
        named = is_name(g.sides[0])
        return set(g.signs) <= {"=", r"\approx"} and (
            (named and self.same(sides[-1], a))
            or (all(isinstance(side, Quantity) for side in sides) and any(self.same(side, a) for side in sides))
        )

    def _meant(self, relation: Relation, rounded: bool = False):
        r"""The one value `x = …`, `40+2 = 42` or `2\sqrt2 \approx 2.83` ends in; None if its sides disagree."""
        signs, sides = list(relation.signs), list(relation.sides)
        if signs == [r"\approx"] and not sides[0]:
            return value(sides[1]) if rounded else None
        asked = self.question is not None and key(sides[0]).lower() in key(self.question)  # "x^2 + y^2 = 25"
        if (is_left_side(sides[0]) or asked) and signs[0] in ("=", r"\approx"):
            if signs[0] == r"\approx" and not rounded:
                return None
            signs, sides = signs[1:], sides[1:]
        if r"\approx" in signs:
            return None
        if any(s != "=" for s in signs) or not sides:
            return None
        last = sides[-1]
        for side in sides[:-1]:
            g, a = value(last), value(side)
            texts = [x.written if isinstance(x, Quantity) else getattr(x, "text", "") for x in (g, a)]
            if not self.same(g, a) and not (all(texts) and self._expression(*texts, worked_out=False)):
                return None
        return value(last)


def _variables(text: str) -> set[str]:
    letters = set(re.findall(r"[A-Za-z]", re.sub(r"\\[a-zA-Z]+", " ", plain(text))))
    letters |= set(re.findall(r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma)(?![a-zA-Z])", plain(text)))
    return letters - {"e", "i", "d"}


def _same_words(g, a) -> bool:
    texts = [re.sub(r"[^\w]+", " ", re.sub(r"\\text", "", getattr(x, "text", ""))).casefold().strip() for x in (g, a)]
    bare = [re.sub(r"^(?:a|an|the) ", "", t) for t in texts]
    return bool(bare[0]) and bare[0] == bare[1]


def _named_tuple(items, other):
    """`x = 3, y = 5` with the names in alphabetical order is the tuple of the values, where the other is a tuple."""
    if (
        getattr(other, "kind", "") == "()"
        and isinstance(items, Items)
        and items.kind == ","
        and all(isinstance(i, Relation) for i in items.items)
    ):
        names = [i.sides[0] for i in items.items]
        if all(i.signs == ("=",) for i in items.items) and names == sorted(set(names)) and all(map(is_name, names)):
            return Items("()", tuple(value(i.sides[1]) for i in items.items))
    return items


def _column(items: Items) -> tuple | None:
    if items.kind == "()":
        return items.items
    return tuple(row.items[0] for row in items.items) if all(len(row.items) == 1 for row in items.items) else None


__all__ = ["INFINITY", "MINUS_INFINITY", "NeedsAlgebra", "judge", "judge_by_algebra"]
