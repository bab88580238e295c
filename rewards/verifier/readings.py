r"""Second readings of an answer that is wrong as it is written.

`readings` makes the text simpler step by step: it drops the reason, then the words around the one
value that the question does not have, then the marks of a list and the signs of another language.
A step starts from the text of the step before it, so a text has one reading and no choice of
several. Every text on the way is judged like any answer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from rewards.verifier.compare import compare
from rewards.verifier.languages import in_digits, spoken_number
from rewards.verifier.notation import key, plain, without_text
from rewards.verifier.numerals import PARTS, is_number_word, number
from rewards.verifier.phrases import CONCLUDING, hedge
from rewards.verifier.question import FUNCTION_WORDS, Question, stem, words_of
from rewards.verifier.sentence import changes_value, is_unit, read_sentence
from rewards.verifier.value import value
from rewards.verifier.value_types import (
    Expr,
    Interval,
    List,
    Quantity,
    Ratio,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
)

_LONGEST = 300  # characters of an answer and the last of a question that are looked at
_PLAIN = re.compile(
    r"[-−$\s]*(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d{1,2}|\.\d{4,})?[\s$]*(?:\\?%)?"
)
# Without a word, a mark of a list or a comma, a formula has no second reading.
_WORTH = re.compile(
    r"(?<![\\a-zA-Z])[^\W\d_]{2}|[,;|#→⟹⇒–—]|[“*~]|[+-]\s*[a-zA-Z]$|\.\d{3}(?!\d)|\d[ºª]|\d\s*/\s*\d+\s*/|\d\s+[^\W\d_]\s+\d"
)
LABELLED = re.compile(r"\(?(?:a|i|1)\).*\(?(?:b|ii|2)\)", re.DOTALL)  # (a) 5; (b) 7
_RIVALS = re.compile(
    r"(?i)\b(?:or|either|another|other|alternativ\w*|also|possib\w*|candidates?|options?|else|"
    r"maybe|ou|oder|o|или|final (?:answer|result)|the answer)\b"
)
_CONCLUDES = re.compile(
    r"(?i)\b(?:so|thus|hence|therefore|consequently|together|in total|altogether|overall|combined|"
    r"finally|in the end|i\.e\.|that is|giving|gives|correct(?:ed|ion)|donc|ainsi|au total|soit|"
    r"somit|insgesamt|zusammen|folglich|por (?:lo )?tanto|en total|así|quindi|in totale|portanto|"
    r"no total|итого|значит|поэтому|всего)(?!\w)|所以|因此|一共"
)
_JOINTS = re.compile(
    r"(?i)\s+(?:et|und|y|e|i|и|й|ou|oder|o|u|или|och|eller|en|of|și|sau|lub|oraz|albo|ve|veya|dan|"
    r"atau|và|hoặc|και|або|та)\s+|[和或与及]|または|と|(?<=\d)(?:와|과)\s|\s(?:또는|और|या|এবং|বা|أو)\s"
)
_REMARK = re.compile(
    r"~~[^~]*~~|[“”]|[\s$,]*\b(?:(?:where|with)\b[^,]*|C\W+(?:is |an? |any |"
    r"arbitrary )*)\bconstant\b.*$"
)


def readings(gold: Value, answer: str, question_text: str) -> Iterator[str]:
    """Yield the simpler texts of `answer`; none for a plain number or a long text."""
    may_be_list = isinstance(gold, List | Set | Tuple | Interval)
    is_copy = answer.strip() == question_text.strip()
    if is_copy or len(answer) > _LONGEST or _PLAIN.fullmatch(answer):
        return
    if not may_be_list and not _WORTH.search(answer):
        return
    question = Question(gold, question_text[-_LONGEST * 3 :])
    text = _REMARK.sub("", without_text(answer))
    text = re.sub(r"(?i)\b(?:(it|that|there|he|she)['’]s|(they)['’]re)\b", r"\1\2 is", text)
    text = re.sub(r"\b([xyz])-coordinate(?: is| of)? ", r"\1 = ", text)
    text = re.sub(r"(?i)\bplus or minus (\w+)", _plus_minus, text)
    text = re.sub(r"\bsq\. ?(?=[a-z])", "square ", text)
    if text != answer:
        yield text
    text = text.strip() if text.endswith("!.") else text.strip().rstrip(".。")
    for step in STEPS if question_text else (_without_reason, read_sentence):
        simpler = step(text, question)
        if simpler and simpler != text:
            text = simpler.strip(" ,;")
            yield text


def _plus_minus(match: re.Match) -> str:
    return f"± {number(match[1].lower()) or match[1]}"


@lru_cache(maxsize=4096)
def simplify_gold(gold: str, question_text: str) -> str | None:
    """Return `19 m` for a gold "The length of the plot is 19 m.", and `x=2` for "x=2 (the root x=-2
    is extraneous)"."""
    text = without_text(gold)
    if isinstance(value(gold), Quantity) or not re.search(r"(?<![\\a-zA-Z])[a-z]{2}", text):
        return None
    if not re.search(r"\d", gold) and not any(map(is_number_word, words_of(gold))):
        return None
    text = re.sub(r"\s*\([^()\\]*(?:[a-z]{4}|\b(?:at|for|if) )[^()\\]*\)", "", text).strip()
    if not isinstance(value(text), List | Set | Tuple):  # "2 pens, 3 pencils"
        question = Question(value("0"), question_text[-_LONGEST * 3 :])
        text = read_sentence(text, question) or text
    return text if text.strip() not in ("", gold) else None


_NAME = re.compile(r"(?:(?<![A-Za-z])([A-Za-z])\s*=|\(([a-h]|i{1,3}|[1-9])\)[^()]*)[\s$]*$")


def final_answers(
    answers: list[str], leads: Sequence[str], gold: str, question_text: str | None
) -> list[str]:
    """Return the `answers` of a text, named as the text before them (`leads`) names them; or the
    last alone, where its lead says that it is the answer to the question and the others are on the
    way: "x = 15. In ten years Jo will be 25".
    """
    if len(answers) < 2 or len(leads) != len(answers):
        return answers
    names = [_NAME.search(lead) for lead in leads]
    is_point = isinstance(value(gold), Interval | Tuple)
    if all(names):
        variables = [name[1] for name in names]
        if LABELLED.match(gold):
            labels = [name[2] or "" for name in names]
            return [answer for _, answer in sorted(zip(labels, answers, strict=True))]
        if all(variables) and (is_point or "=" in gold):
            return [", ".join(map("{}={}".format, variables, answers))]
    if is_point:
        is_final = _joins_coordinates(answers, gold)
    else:
        is_final = question_text and _answers_question(answers, leads, gold, question_text)
    return answers[-1:] if is_final else answers


def _joins_coordinates(answers: list[str], gold: str) -> bool:
    """Whether the last answer holds those before it: x = 3 and y = 7, that is (3, 7)."""
    if not isinstance(value(answers[-1]), type(value(gold))):
        return False
    parts = [key(part) for part in re.split(r"[(),;\[\]]|\\left|\\right", answers[-1])]
    return all(key(answer.split("=")[-1]) in parts for answer in answers[:-1])


def _answers_question(answers: list[str], leads: Sequence[str], gold: str, question: str) -> bool:
    """Whether the lead of the last answer, and no other lead, has the words of the question."""
    if any(map(_RIVALS.search, leads)):
        return False
    is_conclusion = _CONCLUDES.search(leads[-1]) is not None
    if isinstance(value(gold), List | Set | Union) or LABELLED.match(gold):
        return is_conclusion and isinstance(value(answers[-1]), List | Set | Union)
    stems = [set(map(stem, words_of(lead))) for lead in leads]
    last_stems = stems.pop()
    shared_stems = set()
    for word in words_of(question):
        if len(word) > 1 and word.lower() not in FUNCTION_WORDS and stem(word) in last_stems:
            shared_stems.add(stem(word))
    if not all(stems) and not shared_stems and not is_conclusion:
        return False
    if shared_stems and any(shared_stems <= lead_stems for lead_stems in stems):
        return False
    return last_stems not in stems


_REASON = re.compile(
    r"(?i)(?:[,;]?\s+(?:[–—-]\s+)?(\(?)(as(?! well)|because|since|which|using|check(?:ed)?|"
    r"verified|weil|denn|da|puisque|porque|pues|perché|потому что|так как)|,\s+()(with))\b(.*)"
)
_CONTRAST = re.compile(
    r"(?i)(?<!;)(?:,\s+|\s+(?:[–-]\s+|(?=\()|(?=(?:and|und|et|y|e|и) )))\(?(?:(?:and|und|et|y|e|"
    r"и) )?(?:not|nicht|pas|no|non|не) [^\s,;()]+(?: [^\W\d_]+)?\)?"
)
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")


def _numbers(text: str) -> list[str]:
    """Return the numbers of `text` in digits, then those in words."""
    return _NUMERAL.findall(text) + list(filter(is_number_word, words_of(text)))


def _without_reason(text: str, question: Question) -> str | None:
    """Return `5` for "5, because 2 + 3 = 5" and for "5, not 6"; an "as" may take it back: "5 each,
    as 10 in total"."""
    contrast = _CONTRAST.search(text)
    if contrast and contrast.end() == len(text) and re.search(r"\d", text[: contrast.start()]):
        return text[: contrast.start()]
    reason = _REASON.search(text)
    if not reason or "?" in reason[0] or any(map(changes_value, words_of(reason[5]))):
        return None
    text = text[: reason.start()]
    may_take_back = reason[2] in ("as", "which") and not reason[1]
    last_number = _numbers(reason[5])[-1:]
    if may_take_back and last_number and last_number[0] not in _NUMERAL.findall(text):
        return None
    return text


_ASIDE = re.compile(r"(.*\S)(?: \(|, (?:soit|i\.e\.,?|that is,?|d\. ?h\.) )([^()]+)\)?")
_LAST_VALUE = re.compile(r"(?:\$?\d[\d.,:]*(?: ?(?:[^\W\d_]|[/²³%°])+)?)?$")


def _aside(text: str, question: Question) -> str | None:
    """Return `99 cents` for "99 cents ($0.99)", where the aside says the same, and `octagon` for
    "octagon (8 sides)"."""
    match = _ASIDE.fullmatch(text)
    if match is None or any(map(changes_value, words_of(match[2]))):
        return None
    answer, aside = match.groups()
    aside_numbers = _numbers(aside)
    if not _numbers(answer):
        has_value = re.search(r"\d [a-z]|=", aside)
        return answer if has_value and "=" not in answer else None
    number_in_words = spoken_number(aside, question.text)
    answer_value = value(_LAST_VALUE.search(answer)[0])
    aside_value = value(number_in_words.answer if number_in_words else aside)
    part = PARTS.get(aside_numbers[0]) if len(aside_numbers) == 1 else None
    if isinstance(answer_value, Quantity) and answer_value.value == part:
        return answer
    is_formula = isinstance(answer_value, Expr | Relation)
    if is_formula or isinstance(aside_value, Expr | List | Relation | Set):
        return None
    return answer if compare(answer_value, aside_value, " ", None)[0] else None


_CONCLUSION = re.compile(
    rf"(?i)(?:^|(?<=[\s,;:—–，。、]))(?:{CONCLUDING}|giving|leaving|which"
    r" (?:gives|makes|leaves|means)|i\.e\.|that(?: is|['’]s))(?:[\s,:，、]+|(?<=[㐀-鿿ぁ-ん]))|(?:⟹|⇒|"
    r"=>|\\implies|\\Rightarrow)\s*|;\s+(?=the\b)"
)
_COLON = re.compile(r"(?<=[^\W\d_]{3}):\s+")
_BOLD = re.compile(r"\*\*+([^*]+)(?:\*\*+|$)|__([^_]+)(?:__|$)")


def _conclusion(text: str, question: Question) -> str | None:
    """Return `it is odd` for "f(-x) = -f(x), so it is odd": the way to it is no answer. What alone
    is bold is one."""
    way, mark, conclusion = _split_conclusion(text)
    if mark and isinstance(question.gold, Quantity) and _begins_with_answer(text, question):
        return way
    if hedge(way) or not re.search(r"\w", conclusion):
        return None
    if question.has_several_values and mark and not _CONCLUSION.match(mark):
        return None
    way_words = [word for word in words_of(way) if len(word) > 3]
    new_words = [word for word in words_of(conclusion) if len(word) > 3]
    has_answer = re.search(r"\d", way) and any(map(question.has_word, way_words))
    if has_answer and new_words and not any(map(question.has_word, new_words)):
        return None  # "The remainder is 2, so the quotient is 5."
    if question.has_several_values:
        return conclusion.replace("**", "")
    return _bold_answer(conclusion, question) or conclusion


def _split_conclusion(text: str) -> tuple[str, str, str]:
    """Return the way to the conclusion, the word or sign between them, and the conclusion."""
    marks = list(_CONCLUSION.finditer(text))
    if not marks and text.count(":") == 1:
        marks = list(_COLON.finditer(text))
    if not marks:
        return "", "", text
    return text[: marks[-1].start()], marks[-1][0], text[marks[-1].end() :]


def _begins_with_answer(text: str, question: Question) -> bool:
    """Whether the way has the answer: "5, so it is prime", "there are two: 3 and 4"."""
    way, mark, conclusion = _split_conclusion(text)
    if mark[0] == ":" and re.search(r"(?i)how many|number of", question.text):
        items = [item for item in re.split(r",|\band\b", conclusion) if item.strip()]
        if list(map(number, _numbers(way.lower()))) == [len(items)]:
            return True
    if _numbers(conclusion) or any(map(changes_value, words_of(text))):
        return False
    return isinstance(value(way.strip(" ,;")), Quantity)


def _bold_answer(text: str, question: Question) -> str | None:
    matches = list(_BOLD.finditer(text))
    around = _BOLD.sub(" ", text)
    if len(matches) != 1 or hedge(around) or any(map(changes_value, words_of(around))):
        return None
    after = re.match(r"\s*([^\s*_.,;:!]+)", text[matches[0].end() :])
    if after and (is_unit(f" {after[1]}") or is_number_word(after[1])):  # "**5** km"
        return None
    bold = matches[0][1] or matches[0][2]
    if bold.endswith(":") or (words_of(bold) and not any(map(question.is_new, words_of(bold)))):
        return None
    return bold


def _in_digits(text: str, question: Question) -> str:
    return in_digits(text, question.text) if question.is_foreign else text


# What may stand between the items of a list beside commas.
_MARKS = [
    re.compile(rf"\s*(?:{mark})\s*") for mark in ("[-–—]", r"→|->|\\to(?![a-z])", "[/|•&]", r"\s")
]
_ITEMS = re.compile(r"(?:^|\s)(?:[-*•]|\(?\d[.)])\s+|\n")  # "1. B 2. C", or one on each line
_REMAINDER = re.compile(r"(?i)(-?\d+),?\s*(?:r|rem\.?|remainder|rest|reste|resto|остаток)\s*(\d+)")
_EITHER = re.compile(
    r"(?i)^(?:either|both|entweder|soit|o bien|либо) (?=.* (?:or|and|oder|soit|o|либо) )"
)
_CONSTANT = re.compile(
    r"(.*\S)\s*[+-]\s*(?:([a-zA-Z])(?:_\{?\d\}?)?|\\text\{\s*const\w*\.?\s*\}|const\w*)"
)
_EQUATION = re.compile(
    r"(?<![^\W\d_]['’])\b([b-zB-HJ-Z]) (?:is(?: equal to)?|equals|can be) (?=[-−±$\\π√(\d])"
)
_ALL = re.compile(
    r"(?i)^(?:for )?(?:(?:all|any|every) )?(?:real )?(?:(?:numbers|"
    r"values) )?(?:of )?(?:(?:[a-z] )?(?:with|that) )?"
)
_RADIANS = re.compile(
    r"(?:\\frac\{(\d*) ?\\pi ?\}\{(\d+)\}|(\d*) ?\\pi ?(?:/ ?(\d+))?) ?(?:rad|radians?)?\.?"
)
_FROM_TO = r"(?:between|from) ([^a-z,]+) (?:and|to) ([^a-z,]+)"
_UNIT = re.compile(r"(.*[\d}i)])[\s\\]*(平方|квадратн\w+ )?([Ѐ-ӿ]{2,12}|[㐀-鿿]{2,4})")
_SIGNS = {  # as replacements
    r"(?:greater|bigger|larger|more) than or equal to|at least|mayor o igual (?:que|a)|"
    r"supérieure? ou égale? à|größer "
    r"(?:oder )?gleich|maggiore o uguale a|maior ou igual a|больше или равно|大于或?等于|不小于": (
        r"\\ge"
    ),
    r"(?:less|smaller) than or equal to|at most|menor o igual (?:que|a)|inférieure? ou égale? à|"
    r"kleiner (?:oder )?"
    "gleich|minore o uguale a|menor ou igual a|меньше или равно|小于或?等于|不大于": r"\\le",
    "(?:greater|bigger|larger|more) than|above|mayor que|supérieure? à|größer als|maggiore di|maior (?:do )?que|больше|大于": (
        ">"
    ),
    "(?:less|smaller) than|below|menor que|inférieure? à|kleiner als|minore di|menor (?:do )?que|меньше|小于": (
        "<"
    ),
    r"non-? ?negative": r"\\ge 0",
    r"non-? ?positive": r"\\le 0",
    rf"(?:[a-z] )?strictly {_FROM_TO}|(?:[a-z] )?{_FROM_TO},? \(?exclusive(?:ly)?\)?": (
        r"(\1\3,\2\4)"
    ),
    rf"(?:[a-z] )?{_FROM_TO},? \(?(?:inclusive(?:ly)?|both included)\)?": r"[\1,\2]",
    "positive": "> 0",
    "negative": "< 0",
}


def _symbols(text: str, question: Question) -> str | None:
    r"""Return `x = 3` for "x is 3", `x^2 + C` for "x^2 + k", `a > 0` for "all positive a", `1/3`
    for "1 in 3"."""
    words = r"(?i)(?<![\w-])(?:minus |negative )?[a-z]{3,}(?:-[a-z]+)?(?![\w-])"
    in_digits = re.sub(words, _digits, text)
    equation = _EQUATION.sub(r"\1 = ", in_digits)
    gold = question.gold
    if equation != in_digits or isinstance(gold, Interval):
        text = equation
    if isinstance(gold, Ratio):
        return re.sub(r"\b(\w+) is to (\w+)$", _spoken_ratio, text)
    if isinstance(gold, Expr):
        return _expression(text, question)
    if isinstance(gold, Quantity):
        return _quantity(text, question)
    return _interval(text, question) if isinstance(gold, Interval) else text


def _expression(text: str, question: Question) -> str | None:
    """Return an expression with the constant of integration as C, or without a foreign unit."""
    match = _CONSTANT.fullmatch(text) if re.search(r"\+\s*C$", question.gold.text) else None
    if match:
        constant = rf"(?<![A-Za-z\\])(?:C|{match[2]})(?![A-Za-z])"
        is_taken = match[2] and re.search(constant, question.text + match[1])
        return None if is_taken else f"{match[1]} + C"
    match = _UNIT.fullmatch(text.replace("$", "").strip())
    if not match:
        return text
    if re.search("平方|квадратн|²", question.text):
        has_unit = (match[2] or "") + match[3] in question.text
    else:
        has_unit = re.search(rf"(?<![^\W\d_]){match[3]}(?!\w)", question.text)
    return match[1] if has_unit else text


def _quantity(text: str, question: Question) -> str:
    """Return `1/3` for "1 in 3", and an angle of radians in degrees."""
    if 0 < question.gold.value < 1:
        count = r"\b(one|un[aeo]?|eine?|uma?|\d+)(?: chances?)?"
        preposition = r"(?:out of|in|von|sur|de|su|из|em|na)(?: cada| every)?"
        return re.sub(rf"(?i){count} {preposition} ([a-z]+|\d+)$", _share, text)
    angle = _RADIANS.fullmatch(plain(text)) if question.gold.unit == "deg" else None
    if not angle or re.search("degree|°|circ", question.text):
        return text
    degrees = Fraction(180 * int(angle[1] or angle[3] or 1), int(angle[2] or angle[4] or 1))
    return rf"{degrees}^\circ"


def _interval(text: str, question: Question) -> str:
    """Return an inequality in words in signs."""
    verb = r"(?:(?:is|are|must be|has to be|est?|ist|è|é) )?"
    for words, sign in _SIGNS.items():
        phrase = rf"(?i)(?:\b|(?=[大小不]))(?<!不){verb}(?:{words})(?:\b|(?<=[于]))"
        text = re.sub(phrase, sign, text)
    text = _ALL.sub("", text.replace("$", ""))
    bound = re.fullmatch(
        r"((?:[<>]|\\[gl]e)[^a-z]*)(?: (?:numbers?|values?))?(?: of)?(?: ([a-z]))?", text
    )
    if not bound:
        return text
    variable = re.search(r"(?<![A-Za-z\\'’])[b-hj-z](?![A-Za-z'’])", question.text)
    name = bound[2] or (variable[0] if variable else "x")
    return f"{name} {bound[1]}"


def _digits(match: re.Match) -> str:
    n = number(match[0].lower())
    return match[0] if n is None else str(n)


def _spoken_ratio(match: re.Match) -> str:
    terms = [number(term.lower()) for term in match.groups()]
    return match[0] if None in terms else f"{terms[0]}:{terms[1]}"


def _share(match: re.Match) -> str:
    bottom = number(match[2].lower())
    top = match[1] if match[1].isdigit() else 1
    return match[0] if bottom is None else f"{top}/{bottom}"


def _listed(text: str, question: Question) -> str | None:
    """Return `B, C, A` for "1. B 2. C 3. A" or "B – C – A", where the gold has as many values."""
    text = _EITHER.sub("", text)
    gold = question.gold
    if not question.has_several_values:
        return text
    has_brackets = re.search(r"[()\[\]]", text) is not None
    if isinstance(gold, Interval | Tuple) and LABELLED.search(question.text) and not has_brackets:
        return f"({text})"
    if question.is_foreign:
        text = _JOINTS.sub(" or " if re.search(r"\d|=", text) else ", ", text).replace("、", ", ")
    count = len(gold.items)
    # 0.05 < 0.5 < 0.55, where the question asks for an order
    if re.fullmatch(rf"[-−\d./ ]+(?:[<>][-−\d./ ]+){{{count - 1}}}", text):
        text = re.sub(r"\s*[<>]\s*", ", ", text)
    if count > 2 and isinstance(gold, List) and re.fullmatch(r"\[[^\[\]]*\]", text):
        text = text[1:-1]
    division = _REMAINDER.fullmatch(text) if count == 2 else None
    if division:
        return f"{division[1]}, {division[2]}"
    items = [item.strip(" ,;") for item in _ITEMS.split(text) if item.strip()]
    if count > 1 and len(items) == count:
        return ", ".join(items)
    return text if re.search(r"[,=]|;| or ", text) else _separated(text, count)


def _separated(text: str, count: int) -> str:
    """Return `count` words with commas between them, for "B – C – A"."""
    if count == 2 and re.search(r"\d", text):
        return text
    for mark in _MARKS:
        items = mark.split(text)
        if len(items) == count and all(re.fullmatch(r"[\w.']+", item) for item in items):
            return ", ".join(items)
    return text


def _decimals(text: str, question: Question) -> str | None:
    """Return `12.5` for "12,5", where the gold, the question or a semicolon shows that a comma can
    be nothing else."""
    if re.search(r"[(\[]", text):
        return None
    gold = question.gold
    if question.is_foreign or re.search(r"\d\.\d{3}\.\d{3}", text):
        thousands = r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?![\d.])"
        text = re.sub(thousands, lambda match: match[0].replace(".", ""), text)
    if isinstance(gold, Ratio) and re.fullmatch(r"\d+(?:\s*/\s*\d+){2,}", text):
        return text.replace("/", ":")
    if ";" not in text and re.search(r",\s", text):
        return text
    comma = r"(?<![\d.,])(\d+),(\d+)(?![\d,])"
    may_be_decimal = (
        ";" in text
        or question.is_foreign
        or re.search(r"\d,\d{1,2}(?!\d)", question.text)
        or re.search(rf"{comma}\s*\\?%", text)
    )
    if not may_be_decimal and isinstance(gold, Quantity) and "." in gold.written:
        may_be_decimal = re.fullmatch(rf"[-−–$ ]*{comma}.*", text)
    return re.sub(comma, r"\1.\2", text) if may_be_decimal else text


STEPS: list[Callable[[str, Question], str | None]] = [
    _without_reason,
    _aside,
    _in_digits,
    _conclusion,
    _symbols,
    read_sentence,
    _listed,
    _decimals,
]
