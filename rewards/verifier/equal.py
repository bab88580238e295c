r"""Whether an answer says the same as the gold: the rule of docs/verifier.md, cheap steps first.

`compare_answers` runs in the trainer's process and raises `NeedsAlgebra` where exact numbers, text
and structure do not decide; `compare_by_algebra` is the same rule in a worker process, with the
algebra to ask.
"""

import contextlib
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, prod
from types import SimpleNamespace

from rewards.verifier.arithmetic import factors, holds_a_sum, is_sum, squared
from rewards.verifier.compare import compare
from rewards.verifier.context import Algebra, Unreadable
from rewards.verifier.languages import spoken_number
from rewards.verifier.notation import NUMBER, SCALES, closing, depths, key, number, plain
from rewards.verifier.phrases import (
    EXPANDED,
    FACTORED,
    INTERVAL,
    LOWEST_TERMS,
    OPPOSITES,
    PERCENT,
    SIMPLIFIED,
    VALUE,
    Phrase,
    hedge,
)
from rewards.verifier.readings import LABELLED, readings, simplify_gold
from rewards.verifier.units import another_was_asked, change, known, turned_round
from rewards.verifier.value import (
    Clock,
    Expr,
    InBase,
    Interval,
    List,
    Quantity,
    Ratio,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
    Words,
    is_name,
    trimmed,
    value,
)

_MAX_LENGTH = 1000  # characters of an answer, and so of a gold
# characters of one that is read in the trainer's process, without a limit on the time
_MAX_QUESTION = 2000
_MAX_ANSWERS = 20
_MAX_GOLD_READ = 120  # characters of a gold whose answers are read a second time
_OTHER_NUMBER = "not equal to the gold, as whole numbers"  # no second reading can change that
_MAX_DEPTH = 12
_MAX_EXPONENT = 9999
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_WHOLE_AS_MATHS = re.compile(r"(-?\d{1,18})|\$(-?\d{1,18})\$", re.ASCII)
_YES_OR_NO = re.compile(
    r"(?i)(yes|no)[,.;:]? (?:it|they|he|she|we|you|there|this|that) "
    r"(?:((?:is|are|was|were|do|does|did|has|have|ca|wo|would)n['’]t|(?:is|are|was|were|do|does|did|will|can)"
    r" ?not)"
    r"|(?:is|are|was|were|do|does|did|has|have|can|will|would))\.?"
)
# "No, 91 is not prime"
_NOT = re.compile(r"(?i)^(\W*(?:text\{)?no[,.;:] [^?]*?)(?: not\b|n['’]t\b)")
_UNWORKED = re.compile(r"\\(?:sum|prod|int|lim)(?![a-z])|[∑∏∫]")
_CHOICE = re.compile(
    r"(?i:(?:the )?(?:(?:correct |right )?(?:option|choice|answer)(?: is)?:?\s*)*)(?:\\text\{\s*)?"
    r"(?:[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])\s*(?:[).:]|,(?!\s*[A-Za-z](?![a-z]))|$))\s*\}?\s*[.:,]?\s*(.*)"
)
_LETTER = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_ALSO = re.compile(r"(?:or|and|also|plus|along|as well|together)\b|[/&]|[A-J]\b")
_OPTION = re.compile(
    r"(?:\\text(?:bf)?\{\s*)?\(\s*([A-J])\s*\)\s*\}?~?|(?:^|\n)[^\S\n]*([A-J])\s*[.):]\s|(?<!\S)([A-J])\)\s"
)
_NUMBER_ASKED = re.compile(NUMBER.pattern + rf"\s*(?:%|percent|{'|'.join(SCALES)})?")


class NeedsAlgebra(Exception):
    """Only algebra can tell."""


def _undecided(*texts: object) -> bool:
    raise NeedsAlgebra


# Stands for the algebra in the trainer's process.
_NO_ALGEBRA = SimpleNamespace(equal=_undecided, equal_relations=_undecided, close=_undecided)


def compare_by_algebra(
    gold: str, answers: list[str], question: str | None
) -> tuple[bool | None, str]:
    """`compare_answers`, in a worker process."""
    from rewards.verifier import algebra

    try:
        return compare_answers(gold, answers, question, algebra)
    except Unreadable:
        return None, "the gold cannot be read as mathematics"


def compare_answers(
    gold: str, answers: Sequence[str], question: str | None, algebra: Algebra = _NO_ALGEBRA
) -> tuple[bool | None, str]:
    """(right, reason) for the `answers` of a response: each must be right, or all together a gold
    of several values."""
    if max(map(len, answers)) > _MAX_LENGTH:
        return False, "too long for an answer"
    if len(gold) > _MAX_LENGTH:
        return None, "the gold is too long for an answer"
    if len(answers) == 1:
        return _compare_one(gold, answers[0], question, algebra)
    if LABELLED.match(gold) and not LABELLED.match(answers[0]):
        return _compare_one(gold, f"({'; '.join(answers)})", question, algebra)
    different = {key(a): a for a in reversed(answers)}
    if len(different) > _MAX_ANSWERS:
        return False, "several different answers"
    several = (
        List
        | Set
        | Union
        | (Interval | Tuple if all("=" in answer for answer in answers) else Union)
    )
    if len(different) > 1 and _too_large(gold) is None and isinstance(value(gold), several):
        return _as_written(
            gold, ("; " if "," in answers[0] else ", ").join(answers), question, algebra
        )
    verdicts = [_compare_one(gold, a, question, algebra) for a in different.values()]
    wrong = next((v for v in verdicts if not v[0]), None)
    if wrong and len(different) > 1:
        return False, "several different answers"
    return wrong or verdicts[0]


def _compare_one(
    gold: str, answer: str, question: str | None, algebra: Algebra
) -> tuple[bool | None, str]:
    """The verdict on the answer as it is written, or as its question says how to read it."""
    verdict = _as_written(gold, answer, question, algebra)
    if verdict[0] is not False or len(gold) > _MAX_GOLD_READ or verdict[1] == _OTHER_NUMBER:
        return verdict
    if question and _other_way(answer, gold, question):
        return verdict
    for reading in readings(value(gold), answer, question or ""):
        with contextlib.suppress(
            Unreadable
        ):  # a gold for which no reading can be right, and the verdict stands
            right, reason = _as_written(gold, reading, question, algebra)
            if right:
                return True, f"{reason}; read as {reading}"
    if question and (simpler := simplify_gold(gold, question)):
        return _compare_one(simpler, answer, question, algebra)
    return verdict


def _as_written(
    gold: str, answer: str, question: str | None, algebra: Algebra
) -> tuple[bool | None, str]:
    if _WHOLE.fullmatch(gold) and (
        whole := _WHOLE_AS_MATHS.fullmatch(answer)
    ):  # by far the most frequent case
        right = int(gold) == int(whole[1] or whole[2])
        return right, "equal, as whole numbers" if right else _OTHER_NUMBER
    if not answer.strip():
        return False, "empty answer"
    if answer in (gold, f"${gold}$") or key(gold) == key(answer):
        return True, "spelled like the gold"
    numbers = [
        number(text) if NUMBER.fullmatch(text := plain(each)) else None for each in (gold, answer)
    ]
    if numbers[0] != numbers[1] and None not in numbers:
        return False, "not equal to the gold, as numbers"
    if (said := _YES_OR_NO.fullmatch(trimmed(plain(answer)))) and trimmed(
        plain(gold)
    ).casefold() == said[1].lower():
        return (said[2] is not None) == (
            said[1].lower() == "no"
        ), "the first word"  # "no, they can't" is no denial
    denied = _NOT.sub(r"\1", answer) if trimmed(plain(gold)).casefold() == "no" else answer
    if (doubt := hedge(denied)) and not hedge(gold):
        return False, doubt
    if (told := spoken_number(answer, question)) is not None and isinstance(
        g := value(gold), Quantity | Relation
    ):
        if told.objection or (told.unit_unknown and isinstance(g, Quantity) and known(g.unit)):
            return False, told.objection or "another unit than the gold's"
        answer = told.answer
    if (refusal := _too_large(answer)) is not None:
        return False, refusal
    if (sign := _UNWORKED.search(answer)) and sign[0] not in gold:
        return False, "left unevaluated"
    if _too_large(gold) is not None:
        return None, "the gold is beyond the limits of the algebra"
    if algebra is _NO_ALGEBRA and question and len(question) > _MAX_QUESTION:
        raise NeedsAlgebra  # a worker is ended when it takes too long
    if (chosen := choice(gold, answer, question, algebra)) is not None:
        return chosen
    g, a = value(gold), value(answer)
    if (
        isinstance(g, Words)
        and re.search(r"(?i)\btrue or false\b", question or "")
        and answer.strip(" .$") in ("T", "F")
    ):
        return g.text[0] == answer.strip(" .$").lower(), "true or false, by its letter"
    if g in (Words("yes"), Words("no")) and (
        said := re.match(r"(?i)(yes|no)[,.;:] ", answer.strip())
    ):
        opposite = "no" if said[1].lower() == "yes" else "yes"
        return (
            g == Words(said[1].lower()) and not re.search(rf"(?i)\b{opposite}\b", answer),
            "the first word",
        )
    ranges = type(g) is type(a) is not Quantity and form(g, gold) == form(a, answer) == "inequality"
    if ranges and _letters(gold) != _letters(answer):
        return False, "about another variable"
    try:
        counted = _counted(g, gold, answer, question, algebra)
        right, reason = counted or compare(g, a, question, algebra)
    except NeedsAlgebra:
        right = None
    # Most wrong answers need no other reason, and it would take most of their time.
    asked = right is not False or answer in (question or "")
    if asked and (objected := objection(g, a, gold, answer, question)):
        return False, objected
    if right is None:
        raise NeedsAlgebra
    if right or counted or not isinstance(g, Quantity | Expr) or isinstance(a, Quantity):
        return right, reason
    changed = change(plain(answer))  # why "5 or 6" or "about 5" was not read as a number
    return False, f"not equal to the gold: {changed}" if changed else reason


@lru_cache(maxsize=16384)
def _too_large(text: str) -> str | None:
    """Why `text` is not given to the algebra: nesting or powers that would keep it busy."""
    if sum(map(text.count, "([{")) > _MAX_DEPTH < max(depths(text)):
        return f"nested deeper than {_MAX_DEPTH}"
    spelled = plain(text)
    exponents = re.findall(r"\^\s*\{?\s*[+-]?\s*(\d+)", spelled)
    if any(len(digits) > 4 for digits in exponents):
        return f"an exponent above {_MAX_EXPONENT}"
    if prod(int(digits) for digits in exponents if len(digits) > 2) > _MAX_EXPONENT**2 or _tower(
        spelled
    ):
        return "a tower of powers"
    if re.search(
        r"\d{4}\s*[})]*\s*!|!\s*[})]*\s*!|(?:\\binom|choose).*\d{4}|\d{4}.*choose", spelled
    ):
        return "a factorial of a large number"
    return None


def _tower(text: str) -> bool:
    r"""Whether a number is raised to a power of numbers, `9^{9^9}`, or exponents are nested more
    than two deep."""
    if re.search(r"\d\s*\^\s*\{?\s*\d+\s*\^", text):
        return True
    opened: list[bool] = []
    for brace in re.finditer(r"(\^\s*)?\{|\}", text):
        if brace.group() != "}":
            opened.append(brace[1] is not None)
        elif opened:
            opened.pop()
        if sum(opened) > 2:
            return True
    return False


_CHOSEN = re.compile(  # C(10,3), {}_{10}C_3, 10C3, C_{10}^3, 10 choose 3
    r"(?<![A-Za-z\\])(?:([CP])\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)|"
    r"(?:\{\}\s*)?[_^]?\s*\{?(\w+?)\}?\s*\{?([CP])\}?\s*_?\s*\{?(\d+)\}?|"
    r"\{?(C)\}?\s*_\s*\{?(\w+?)\}?\s*\^\s*\{?(\w+)\}?|"
    r"\{?\s*(\d+|[a-z])\s*\\?choose\s*(\w+)\s*\}?)(?![A-Za-z])"
)
_COUNTING = re.compile(r"\\binom|\d\s*\)?!")
# where ways are counted
_COUNTING_TOO = re.compile(
    _COUNTING.pattern + r"|\d\s*\^\s*\{?\s*\d|\d\s*\\(?:cdot|times)(?![a-z])"
)
_POWER = re.compile(_COUNTING.pattern + r"|\d\s*\^\s*\{?\s*\d")
_CHANCE = re.compile(_POWER.pattern + r"|\d\}?\s*\)\s*\^|\d\s*\^\s*\{?\s*-")
_HOW_MANY = re.compile(r"\bhow many\b|\bnumber of\b|\bin total\b")
_WAYS = re.compile(
    r"\b(?:ways?|subsets?|functions?|mappings?|sequences?|strings?|codes?|passwords?|orders|orderings?|arrangements?|"
    r"permutations?|"
    r"outcomes?|combinations?|colou?rings?|paths?|relations?|teilmengen|möglichkeiten|façons|parties|formas|maneras|"
    r"modi|"
    r"способ\w*|подмножеств\w*)\b"
)
# What may be left unevaluated, by what the question asks for.
_LEFT_AS_IT_IS = [
    (_WAYS, _COUNTING_TOO),
    (re.compile("probability|chance"), _CHANCE),
    (_HOW_MANY, _POWER),
]


def _with_binomials(text: str) -> str:
    r"""Every notation of a binomial as `\binom{n}{k}`, and one of k in order out of n as
    `\frac{n!}{(n-k)!}`."""

    def spelled(match: re.Match) -> str:
        ordered = "P" in match.groups()
        n, k = (part for part in match.groups() if part and part not in ("C", "P"))
        if ordered and n.isdigit() and k.isdigit() and int(k) <= int(n):
            return rf"\frac{{{n}!}}{{{int(n) - int(k)}!}}"
        return match[0] if ordered else rf"\binom{{{n}}}{{{k}}}"

    return _CHOSEN.sub(spelled, re.sub(r"\\text\{([^{}]*)\}", r"\1", plain(text)))


def _counted(
    g: Value, gold: str, answer: str, question: str | None, algebra: Algebra
) -> tuple[bool, str] | None:
    """The verdict on an answer left as binomials and factorials; None for any other, and where it
    has to be worked out: the question asks for a value, or has such a sign itself."""
    if (
        not isinstance(g, Quantity | Expr)
        or isinstance(value(answer), Quantity)
        or not question
        or len(answer) > 90
        or not re.search(r"!|binom|choose|[CP]|\d[^^\d]*[\^c]", plain(answer))
        or (isinstance(g, Quantity) and g.percent)
    ):
        return None
    spelled, wanted = _with_binomials(answer), _with_binomials(gold)
    # "N = 6!", "2^{10} subsets"
    spelled = re.sub(r"^\s*[A-Za-z]\s*=|(?<=[\d)}!])(?: [a-z]{3,})+$", "", spelled)
    outside = re.sub(r"\([^()]*\)|\{[^{}]*\}", "", spelled)
    asked = question.lower()
    counting = next((signs for asks, signs in _LEFT_AS_IT_IS if asks.search(asked)), _COUNTING)
    if (
        not counting.search(spelled)
        or re.search(r"[=<>,]|!\s*!|\bor\b", outside)
        or _too_large(spelled)
    ):
        return None
    asked = counting.search(_with_binomials(question)) or VALUE.is_in(question.lower())
    if asked and not counting.search(wanted):
        return None
    if isinstance(g, Quantity):
        wanted = rf"\frac{{{g.value.numerator}}}{{{g.value.denominator}}}"
    right = algebra.equal(wanted, spelled, False)
    return (
        right,
        "equal, as numbers of ways" if right else "not equal to the gold, as numbers of ways",
    )


def _letters(text: str) -> set[str]:
    """The variables of an inequality: letters that stand alone."""
    return set(
        re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", plain(text).replace(r"\mathbb{R}", ""))
    )


# ---- multiple choice: the letter of an option, or the text of one that the question lists


def choice(
    gold: str, answer: str, question: str | None, algebra: Algebra
) -> tuple[bool | None, str] | None:
    """The verdict where the gold is the letter of an option, or the answer is one and the question
    lists options."""
    if named := re.fullmatch(r"(?:\\text\{)?([A-Z]?[a-z]{3,}) ([A-J])\}?", gold):  # B of "Shop B"
        gold = (
            named[2] if question and f"{named[1]} {named[2]}".lower() in question.lower() else gold
        )
        answer = re.sub(rf"^(?:\\text\{{)?(?i:{named[1]}) (?=[A-J]\}}?$)", "", answer.strip())
    answer = re.sub(
        r" is (?:the )?(?:correct|right)(?: (?:option|choice|answer|one))?\.?$", "", answer
    )
    wanted, given = (_CHOICE.fullmatch(trimmed(plain(text))) for text in (gold, answer))
    letter = given and (given[1] or given[2]).upper()
    options = _options(question) if question and (wanted or given) else {}
    if (
        wanted
        and wanted[3]
        and (g := (wanted[1] or wanted[2])) in options
        and _alike(options[g], wanted[3], algebra)
    ):
        return choice(g, answer, question, algebra)
    if (
        wanted and wanted[3] and wanted[2] and given and not given[3] and letter == wanted[2]
    ):  # C of "C. 14"
        return True, "the option"
    if wanted and not wanted[3] and (g := wanted[1] or wanted[2]) in "ABCDEFGHIJ":
        if given and (given[1] or given[2]) in "ABCDEFGHIJabcdefghij":
            rest = given[3]
            # Behind the letter stands the option's text, and no other letter where that text is not
            # known.
            listed = re.search(
                r"(?<![A-Za-z])[A-J]\s*[).:]" if g in options else _LETTER, rest
            ) or _ALSO.match(rest)
            right = (
                letter == g
                and not listed
                and (not rest or g not in options or _alike(options[g], rest, algebra))
            )
            return right, "the option" if right else "another option"
        if g in options:
            return _as_text(value(options[g]), value(answer), question, algebra)
    elif (
        letter in options and given and (not given[3] or _alike(options[letter], given[3], algebra))
    ):
        return _as_text(value(gold), value(options[letter]), question, algebra)
    return None


def _as_text(
    gold: Value, answer: Value, question: str | None, algebra: Algebra
) -> tuple[bool, str]:
    """The verdict where the text of an option stands for its letter."""
    right, reason = compare(gold, answer, question, algebra)
    return right, f"the option's text: {reason}"


def _alike(option: str, rest: str, algebra: Algebra) -> bool:
    return key(option) == key(rest) or compare(value(option), value(rest), None, algebra)[0]


def _options(question: str) -> dict[str, str]:
    marks = list(_OPTION.finditer(question))
    if len(marks) < 2:
        return {}
    ends = [m.start() for m in marks[1:]] + [len(question)]
    return {
        (m[1] or m[2] or m[3]): question[m.end() : end].strip(" \n$\\~,;")
        for m, end in zip(marks, ends, strict=True)
    }


# ---- what the question has against an answer: a copy, another form, another unit


def objection(g: Value, a: Value, gold: str, answer: str, question: str | None) -> str | None:
    """What the question has against an answer that may be equal to the gold."""
    if not question:
        return None
    if isinstance(a, Relation) and not isinstance(g, Relation) and set(a.signs) == {"="}:
        answer = a.sides[-1] if not is_name(a.sides[-1]) else a.sides[0]
        a = value(answer)
    if _copied(g, a, gold, answer, question):
        return "copied from the question"
    if request := _another_form_was_asked(g, a, gold, answer, question):
        return f"the question asks for {request.name}"
    if isinstance(a, Quantity) and isinstance(g, Quantity) and a.unit == "¢" and not g.unit:
        return (
            None
            if re.search(r"\bcents?\b|¢|penn", question.lower())
            else "cents, of which the question does not speak"
        )
    if way := _other_way(answer, gold, question):
        return f"the other way than the question asks for, {way}"
    numbers = (Quantity, Expr)
    if (
        isinstance(a, numbers)
        and isinstance(g, numbers)
        and not g.unit
        and (another_was_asked(a.unit, question) or turned_round(a.unit, question))
    ):
        return "another unit than the question asks for"
    return None


def _other_way(answer: str, gold: str, question: str) -> str | None:
    """The word by which an answer goes the other way than the question: "a fall of 15" where a rise
    is asked for."""
    if not re.search("[a-z]{2}", answer):
        return None
    said, asked = (set(re.findall("[a-z]+", text.lower())) for text in (answer, question + gold))
    for pair in OPPOSITES:
        for one, other in (pair, pair[::-1]):
            if (found := said & other) and asked & one and not asked & other:
                return min(found)
    return None


def _not_reduced(typed: Value) -> bool:
    """Whether a fraction is written with a common factor."""
    if form(typed, "") not in ("fraction", "mixed number"):
        return False
    numerals = _numerals(typed)  # none in "three quarters"
    return "." not in typed.written and gcd(*map(int, numerals[-2:])) > 1


def _common(ratio: Ratio) -> int:
    """The common factor of a ratio's terms, 0 where they are not whole."""
    terms = [term.strip() for term in ratio.terms]
    return gcd(*map(int, terms)) if all(re.fullmatch("[0-9]+", term) for term in terms) else 0


def form(typed: Value, text: str) -> str:
    """The way an answer is written, where a problem may ask for another: an expression's form is
    its spelling."""
    if isinstance(typed, Quantity):
        return "percent" if typed.percent else _form_of_number(typed.written, typed.value)
    if isinstance(typed, Expr | Relation | Ratio):
        return key(text)
    if re.search(r"[<>]|\\[lg]e(?![a-z])", plain(text)):
        return "inequality"
    return type(typed).__name__ if isinstance(typed, Words | Clock | InBase) else "several values"


def _form_of_number(written: str, number: Fraction) -> str:
    if "/" in written or "frac" in written:
        return (
            "mixed number"
            if len(re.findall(r"\d+(?:\.\d+)?", written.replace(",", ""))) > 2
            else "fraction"
        )
    if re.search(r"10\s*\^|\d[eE]", written):
        return "power of ten"
    if any(char.isdigit() for char in written) and re.search(
        "[a-z]{4}", written.replace("overline", "")
    ):
        return "scaled"  # 3.5 million
    if number.denominator == 1:
        return "whole number"
    spoken = re.search("[a-z]", written.replace("overline", ""))
    return "decimal" if not spoken else "mixed number" if " and " in written else "fraction"


def _copied(g: Value, a: Value, gold: str, answer: str, question: str) -> bool:
    """Whether `answer` stands in the question in another form than the gold's: the task, not its
    result."""
    if isinstance(a, Ratio) and isinstance(g, Ratio):
        asked = [
            pair.groups() for pair in re.finditer(r"(\d+)\s*(?::|to)\s*(\d+)", plain(question))
        ]
        return a.terms in asked and g.terms != a.terms
    given, wanted = form(a, answer), form(g, gold)
    if (
        given == "percent"
        and isinstance(g, Quantity)
        and g.value == a.value
        and PERCENT.is_in(question.lower())
    ):
        return False
    if (given == "whole number" and wanted not in ("power of ten", "scaled")) or (
        given == wanted and not _not_reduced(a)
    ):
        return False
    if (it := key(answer)) in (asked := key(question)) and re.search(
        rf"(?<!\d){re.escape(it)}(?!\d)", asked
    ):
        return True
    if isinstance(a, Quantity) and isinstance(g, Quantity):
        asked = [value(match.group()) for match in _NUMBER_ASKED.finditer(plain(question))]
        same = [q for q in asked if isinstance(q, Quantity) and abs(_share(q)) == abs(_share(a))]
        if given == wanted:  # 6/8 for 3/4
            return any(_numerals(q) == _numerals(a) for q in same)
        scaled = given == "power of ten"  # 1.25 × 10^-4 is no copy of 1/8000
        return any(form(q, "") != wanted and (form(q, "") == given or not scaled) for q in same)
    if not isinstance(a, Expr) or _flat(answer) == _flat(gold):
        return False
    it, asked = _flat(answer), _flat(question)
    return it in asked and re.search(rf"(?<!\d){re.escape(it)}(?!\d)", asked) is not None


def _share(quantity: Quantity) -> Fraction:
    return quantity.value / 100 if quantity.percent else quantity.value


def _numerals(quantity: Quantity) -> list[str]:
    return re.findall(r"\d+", quantity.written.replace(",", ""))


@lru_cache(maxsize=4096)
def _flat(text: str) -> str:
    r"""`text` for a search: without brackets and multiplication signs, `\frac{a}{b}` as `a/b`, a
    power ½ as a root."""
    text = re.sub(r"\\(?:cdot|times)(?![a-zA-Z])|\*", "", key(text))
    while (at := text.find(r"\frac{")) >= 0 and (end := closing(text, at + 5)) is not None:
        text = f"{text[:at]}{text[at + 5 : end + 1]}/{text[end + 1 :]}"
    return re.sub(r"(?<!\w)(\w+)\^1/2", r"\\sqrt\1", re.sub(r"[(){}]", "", text))


def _another_form_was_asked(
    g: Value, a: Value, gold: str, answer: str, question: str
) -> Phrase | None:
    """What was asked for, where `x < 5` is given for (-∞, 5), a sum for a product, 6/8 for 3/4."""
    if isinstance(g, Ratio) and isinstance(a, Ratio) and LOWEST_TERMS.is_in(question):
        return LOWEST_TERMS if _common(a) > 1 == _common(g) else None
    if isinstance(g, Quantity) and isinstance(a, Quantity):
        return LOWEST_TERMS if _not_reduced(a) and LOWEST_TERMS.is_in(question) else None
    if INTERVAL.is_in(question):
        return INTERVAL if form(a, answer) == "inequality" != form(g, gold) else None
    if not isinstance(g, Expr) or not isinstance(a, Expr):
        return None
    if FACTORED.is_in(question):
        coarse = factors(a.text) < factors(g.text) or is_sum(a.text)
        return FACTORED if coarse and not is_sum(g.text) else None
    if SIMPLIFIED.is_in(question) and squared(a.text) and not squared(g.text):
        return SIMPLIFIED
    return (
        EXPANDED
        if EXPANDED.is_in(question) and holds_a_sum(a.text) and not holds_a_sum(g.text)
        else None
    )
