"""The rules that compare two single values: numbers, expressions, ratios and words."""

import re
from dataclasses import replace
from fractions import Fraction

from .arithmetic import far_apart, functions_in
from .context import Context
from .notation import key, plain
from .numerals import SCALES, base_named, number
from .phrases import REQUESTS, asks_for
from .question import Question
from .units import AMOUNTS, without_prefixes
from .value_types import Expr, InBase, Quantity, Ratio, Words

# What the algebra's parser passes over, or takes for polynomials; a unit between two numbers, as in
# "2 h 20 min", which it takes for a product.
UNREAD = re.compile(
    r"""['"$`]|\.\.\.|(?:gcd|lcm)(?![a-z])|\d\s*(?:\\text\{)?\s*[a-wyz][a-z]*\s*\}?\s*\d"""
)
_DIGITS = re.compile(r"[\dA-F]{2,}|[\da-f]{2,}")
_GREEK = re.compile(r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma)(?![a-zA-Z])")


def quantities(gold: Quantity, answer: Quantity, context: Context) -> bool:
    """Numbers are equal exactly; the question settles percent signs, "quarters" and "how many
    million"."""
    if answer.unit == "ordinal" and gold.unit != "ordinal" and not context.question:
        return False  # "3rd" for 3 answers a question, such as "In which place?"
    answer = _in_unit_of(gold, answer, context.question)
    for decide in (_by_unit, _by_scale):
        verdict = decide(gold, answer, context.question)
        if verdict is not None:
            return verdict
    return _by_percent(gold, answer, context.question)


def _in_unit_of(gold: Quantity, answer: Quantity, question: str) -> Quantity:
    """An answer in the unit of the gold, where the two differ in prefixes alone (60 J, 0.06 kJ) and
    the question does not ask for the gold's."""
    if gold.unit == answer.unit or not gold.unit or not answer.unit:
        return answer
    wanted, wanted_size = without_prefixes(gold.unit)
    unit, size = without_prefixes(answer.unit)
    if unit != wanted or Question(question).asks_for_another_unit(answer.unit):
        return answer
    return replace(answer, value=answer.value * size / wanted_size, unit=gold.unit)


def _by_unit(gold: Quantity, answer: Quantity, question: str) -> bool | None:
    """The verdict on two different units; None where the units agree."""
    units = (gold.unit, answer.unit)
    is_same = gold.unit == answer.unit or "ordinal" in units
    has_two_units = gold.unit and answer.unit and units != ("£", "lb")  # "5 pounds"
    if not is_same and (has_two_units or "mod" in (gold.unit[:3], answer.unit[:3])):
        return False
    return None


def _by_scale(gold: Quantity, answer: Quantity, question: str) -> bool | None:
    """The verdict on "3 quarters" or "2 million"; None on any other number."""
    if _is_amount(gold, answer, question):
        is_bare = not gold.unit and not gold.percent
        return is_bare and gold.value == answer.value * AMOUNTS[answer.unit]
    scale = next((scale for scale in SCALES if answer.written.endswith(scale)), None)
    request = rf"\bhow many (?:\w+ )?{scale}|\bin {scale}s\b"
    if scale and re.search(request, question) and gold.value == answer.value / SCALES[scale]:
        return gold.percent == answer.percent
    return None


def _by_percent(gold: Quantity, answer: Quantity, question: str) -> bool:
    """The verdict on two numbers of which one may have a percent sign."""
    if gold.percent == answer.percent:
        return gold.value == answer.value
    if gold.unit or answer.unit:
        return False
    in_words = question.replace("\\%", "percent").replace("%", "percent")
    if answer.percent and asks_for("a percentage", in_words):
        return gold.value == answer.value
    percent = gold.value if gold.percent else answer.value
    share = answer.value if gold.percent else gold.value
    if share.denominator > 1 and percent == share * 100:
        return True
    if gold.percent:
        return gold.value == answer.value
    # Without the question: a gold up to 1 may be a share, of which so many percent are another
    # number.
    return not question and gold.value == answer.value and gold.value > 1


def _is_amount(gold: Quantity | Expr, answer: Quantity | Expr, question: str) -> bool:
    """Whether the "quarters" of an answer are parts, where neither gold nor question has them as
    things."""
    is_only_in_answer = answer.unit in AMOUNTS and answer.unit != gold.unit
    return is_only_in_answer and f"how many {answer.unit}s" not in question


def expressions(gold: Expr, answer: Expr | Quantity, context: Context) -> bool:
    """Expressions, or an expression and the number it may come to."""
    question = context.question
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    is_in_degrees = answer.unit.startswith("deg") and not gold.unit and r"\pi" in gold.text
    if is_in_degrees or _is_amount(gold, answer, question):
        return False
    if r"\times" in gold.text and asks_for("a size", question):
        return False  # 2 × 3 is neither 6 nor 3 × 2
    if isinstance(answer, Quantity):
        fraction = rf"\frac{{{answer.value.numerator}}}{{{answer.value.denominator}}}"
        return not answer.percent and same_texts(gold.text, fraction, context)
    texts = (gold.text, in_case_of(gold.text, answer.text, question))
    if asks_for("a base", question) and all(map(_DIGITS.fullmatch, texts)):
        return gold.text == answer.text.upper()  # FE is not E times F
    colons = [text.count(":") for text in texts]
    if min(colons) > 0 or max(colons) > 1:
        return False
    return not _is_unfinished(gold, answer, question) and same_texts(*texts, context)


def _is_unfinished(gold: Expr, answer: Expr, question: str) -> bool:
    """Whether an answer has functions that the question wants gone, or functions of numbers where
    the gold has none."""
    expected = functions_in(plain(gold.text))
    added = functions_in(plain(answer.text)) - expected
    if not added or "in terms of" in question:
        return bool(added)
    is_a_number = not variables(re.sub(r"\\circ(?![a-z])", "", plain(answer.text)))
    return is_a_number and not expected and not re.search(r"\\arc|\be\b", gold.text)


def same_texts(gold: str, answer: str, context: Context, worked_out: bool = True) -> bool:
    """Whether two expressions are equal, by their spelling or else by algebra; with `worked_out`,
    the answer may leave no arithmetic that the gold does not leave."""
    if key(gold) == key(answer):
        return True
    if UNREAD.search(gold) or UNREAD.search(answer):
        return False
    is_infinite = {gold, answer} & {r"\infty", r"-\infty"}
    are_letters = len(gold) == 1 and len(answer) == 1
    if are_letters or is_infinite or variables(gold) != variables(answer):
        return False
    expected = plain(gold)
    written = plain(answer)
    return not far_apart(expected, written) and context.algebra.equal(expected, written, worked_out)


def variables(text: str) -> set[str]:
    """The letters of an expression, without the letters of commands and without e, i and d."""
    spelled = plain(text)
    letters = set(re.findall(r"[A-Za-z]", re.sub(r"\\[a-zA-Z]+", " ", spelled)))
    letters.update(_GREEK.findall(spelled))
    return letters - {"e", "i", "d"}


def is_rounded_to(text: str, rounded: Fraction, places: int, context: Context) -> bool:
    """Whether an expression comes to a number rounded to so many places."""
    if UNREAD.search(text) or variables(text):
        return False
    half = Fraction(1, 2 * 10**places)
    exact = number(text)
    if exact is not None:
        return abs(exact - rounded) <= half
    return context.algebra.is_near(text, rounded, half)


def in_case_of(gold: str, answer: str, question: str) -> str:
    """An answer with the letters of its constants, which stand nowhere in the question, in the case
    that the gold has them in: `C e^{-2t}` for `c e^{-2t}`."""
    if not question:
        return answer
    for letter in variables(answer) - variables(gold):
        turned = letter.swapcase()
        is_of_gold = turned in variables(gold) - variables(answer)
        is_constant = letter in "cCkK" or "constant" in question
        is_in_question = re.search(rf"(?<![a-z\\]){letter.lower()}(?![a-z])", question)
        if is_of_gold and is_constant and not is_in_question:
            parts = re.split(r"(\\[a-zA-Z]+)", answer)  # no letter of a command
            parts[::2] = [part.replace(letter, turned) for part in parts[::2]]
            answer = "".join(parts)
    return answer


def numbers_in_base(
    gold: InBase | Quantity | Expr, answer: InBase | Quantity | Expr, context: Context
) -> bool:
    """A number in a base against its digits; the base may be dropped where the gold or the question
    names it."""
    with_base = gold if isinstance(gold, InBase) else answer
    bare = answer if with_base is gold else gold
    if isinstance(bare, InBase):
        return False
    if isinstance(bare, Quantity) and (bare.unit or bare.percent):
        return False
    # Ten is the base of every question that names none.
    question = context.question
    is_ten = with_base.base == 10 and not asks_for("a base", question)
    if with_base is not gold and not is_ten and not _asks_for_base(with_base.base, question):
        return False
    digits = bare.written if isinstance(bare, Quantity) else bare.text
    return digits.replace(" ", "").lstrip("0") == with_base.digits


def _asks_for_base(base: int, question: str) -> bool:
    """Whether the question names a base, and it is this one."""
    if not asks_for("a base", question):
        return False
    names = [
        next(filter(None, groups))
        for groups in REQUESTS["a number in another base"].findall(question)
    ]
    return not names or base_named(names[-1]) in (None, base)


def ratios(gold: Ratio | Quantity, answer: Ratio | Quantity, context: Context) -> bool:
    """Ratios are equal in proportion, `2:3` and `4:6`, unless they may be times."""
    expected = _terms(gold)
    written = _terms(answer)
    if len(expected) != len(written):
        return False
    if _may_be_time(gold) and _may_be_time(answer):
        return expected == written
    if bool(expected[0]) != bool(written[0]):
        return False
    pairs = zip(expected, written, strict=True)
    return all(gold_term * written[0] == term * expected[0] for gold_term, term in pairs)


def _may_be_time(ratio: Ratio | Quantity) -> bool:
    if not isinstance(ratio, Ratio) or len(ratio.terms) != 2:
        return False
    minute = ratio.terms[1]
    return len(minute) == 2 and minute < "60"


def _terms(ratio: Ratio | Quantity) -> list[Fraction]:
    """The terms of a ratio; the numerator and denominator of a fraction; none of a number that is
    written without a stroke, a point or a percent sign."""
    if isinstance(ratio, Ratio):
        return [number(term) for term in ratio.terms]
    if ratio.unit or ratio.percent or not re.search(r"[/.c]", ratio.written):
        return []
    return [Fraction(ratio.value.numerator), Fraction(ratio.value.denominator)]


def words(gold: Words | Expr, answer: Words | Expr, context: Context) -> bool:
    """Words are equal without case, punctuation, articles and "it is"."""
    # The letters alone do not tell -\infty from \infty, and a - b not from ab.
    for side in (gold, answer):
        if isinstance(side, Expr) and re.search(r"[-+*/^_=<>|!']", side.text):
            return False
    expected = _bare_words(gold.text)
    written = _bare_words(answer.text)
    short, long = sorted((expected, written), key=len)
    if short and long.startswith(f"{short} ") and isinstance(answer, Words):
        # "an odd function" for "odd", or the other way round
        added = {word.removesuffix("s") for word in long.removeprefix(short).split()}
        in_question = {word.removesuffix("s") for word in re.findall(r"\w+", context.question)}
        return added - {"angled"} <= in_question - {"or", "and", "nor", "not"}
    return bool(expected) and expected.removesuffix("s") == written.removesuffix("s")


def _bare_words(text: str) -> str:
    """`text` in lower case, without punctuation, and without "it is" and an article before it."""
    text = re.sub(r"[^\w]+", " ", re.sub(r"\\text", "", text)).casefold().strip()
    opening = r"^(?:(?:it|the \w+|there) (?:is|are|will be) )?(?:(?:a|an|the|on|in) )?"
    return re.sub(opening, "", text)
