r"""Second readings of an answer that is wrong as it is written.

`readings` makes the text simpler step by step: the reason given goes, then the words around the one
thing that the question does not say itself, then the marks of a list and the signs of another
language. Each step goes on from the one before it, so a text has one reading and no choice of
several; each is judged like any answer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from rewards.verifier.compare import compare
from rewards.verifier.languages import in_digits, number_said
from rewards.verifier.notation import PARTS, is_number_word, key, number, plain, without_text
from rewards.verifier.phrases import CONCLUDING, hedge
from rewards.verifier.told import FUNCTION_WORDS, Asked, changes, stem, told, words_of
from rewards.verifier.units import known, unit
from rewards.verifier.value import (
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
    value,
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
    r"(?i)\b(?:or|either|another|other|alternativ\w*|also|possib\w*|candidates?|options?|else|maybe|ou|oder|o|или|"
    r"final (?:answer|result)|the answer)\b"
)
_DRAWN = re.compile(
    r"(?i)\b(?:so|thus|hence|therefore|consequently|together|in"
    r" total|altogether|overall|combined|finally|in the end|"
    r"i\.e\.|that is|giving|gives|correct(?:ed|ion)|donc|ainsi|au"
    r" total|soit|somit|insgesamt|zusammen|folglich|por "
    r"(?:lo )?tanto|en total|así|quindi|in totale|portanto|no"
    r" total|итого|значит|поэтому|всего)(?!\w)|所以|因此|一共"
)
_JOINTS = re.compile(
    r"(?i)\s+(?:et|und|y|e|i|и|й|ou|oder|o|u|или|och|eller|en|of|și|sau|lub|oraz|albo|ve|veya|dan|atau|và|hoặc|και|"
    r"або|та)\s+|[和或与及]|または|と|(?<=\d)(?:와|과)\s|\s(?:또는|और|या|এবং|বা|أو)\s"
)


def readings(gold: Value, answer: str, question: str) -> Iterator[str]:
    """The texts that `answer` comes to, each step once; none for a plain number or a long text."""
    several = isinstance(gold, List | Set | Tuple | Interval)
    copied = answer.strip() == question.strip()
    if (
        copied
        or len(answer) > _LONGEST
        or _PLAIN.fullmatch(answer)
        or not (several or _WORTH.search(answer))
    ):
        return
    asked, text = Asked(gold, question[-_LONGEST * 3 :]), without_text(answer)
    text = re.sub(
        r"~~[^~]*~~|[“”]|[\s$,]*\b(?:(?:where|with)\b[^,]*|C\W+(?:is |an? |any |arbitrary"
        r" )*)\bconstant\b.*$",
        "",
        text,
    )
    text = re.sub(r"(?i)\b(?:(it|that|there|he|she)['’]s|(they)['’]re)\b", r"\1\2 is", text)
    text = re.sub(r"\b([xyz])-coordinate(?: is| of)? ", r"\1 = ", text)
    text = re.sub(
        r"(?i)\bplus or minus (\w+)",
        lambda found: f"± {number(found[1].lower()) or found[1]}",
        text,
    )
    text = re.sub(r"\bsq\. ?(?=[a-z])", "square ", text)
    if text != answer:
        yield text
    text = text.strip() if text.endswith("!.") else text.strip().rstrip(".。")
    for step in STEPS if question else (_without_reason, told):
        if (made := step(text, asked)) and made != text:
            text = made.strip(" ,;")
            yield text


@lru_cache(maxsize=4096)
def plainer(gold: str, question: str) -> str | None:
    """`19 m` of a gold "The length of the plot is 19 m.", and `x=2` of "x=2 (the root x=-2 is
    extraneous)"."""
    said = without_text(gold)
    kept = re.sub(r"\s*\([^()\\]*(?:[a-z]{4}|\b(?:at|for|if) )[^()\\]*\)", "", said).strip()
    if (
        isinstance(value(gold), Quantity)
        or not re.search(r"(?<![\\a-zA-Z])[a-z]{2}", said)
        or not (re.search(r"\d", gold) or any(map(is_number_word, words_of(gold))))
    ):
        return None
    several = isinstance(value(kept), List | Set | Tuple)  # "2 pens, 3 pencils"
    found = kept if several else told(kept, Asked(value("0"), question[-_LONGEST * 3 :])) or kept
    return found if found.strip() not in ("", gold) else None


_NAME = re.compile(r"(?:(?<![A-Za-z])([A-Za-z])\s*=|\(([a-h]|i{1,3}|[1-9])\)[^()]*)[\s$]*$")


def concluded(
    answers: list[str], leads: Sequence[str], gold: str, question: str | None
) -> list[str]:
    """The `answers` of a text, each under the name that its lead gives it; or the last alone, where
    its lead says that it is what the question asks for and the others are on the way: "x = 15. In
    ten years Jo will be 25".
    """
    if len(answers) < 2 or len(leads) != len(answers):
        return answers
    names = [_NAME.search(lead) for lead in leads]
    if all(names) and LABELLED.match(gold):
        return [
            answer
            for _, answer in sorted(zip([name[2] or "" for name in names], answers, strict=True))
        ]
    point = isinstance(value(gold), Interval | Tuple)
    if all(name and name[1] for name in names) and (point or "=" in gold):
        return [
            ", ".join(f"{name[1]}={answer}" for name, answer in zip(names, answers, strict=True))
        ]
    if point and isinstance(
        value(answers[-1]), type(value(gold))
    ):  # x = 3 and y = 7, that is (3, 7)
        parts = [key(part) for part in re.split(r"[(),;\[\]]|\\left|\\right", answers[-1])]
        return (
            answers[-1:]
            if all(key(answer.split("=")[-1]) in parts for answer in answers[:-1])
            else answers
        )
    if point or not question or any(map(_RIVALS.search, leads)):
        return answers
    drawn = _DRAWN.search(leads[-1])
    if isinstance(value(gold), List | Set | Union) or LABELLED.match(gold):
        return (
            answers[-1:]
            if drawn and isinstance(value(answers[-1]), List | Set | Union)
            else answers
        )
    *before, last = ({stem(word) for word in words_of(lead)} for lead in leads)
    asked = {
        stem(word)
        for word in words_of(question)
        if len(word) > 1 and word.lower() not in FUNCTION_WORDS
    } & last
    alone = (all(before) or asked or drawn) and not any(
        last == each or (asked and asked <= each) for each in before
    )
    return answers[-1:] if alone else answers


_REASON = re.compile(
    r"(?i)(?:[,;]?\s+(?:[–—-]\s+)?(\(?)(as(?!"
    r" well)|because|since|which|using|check(?:ed)?|verified|weil|denn|da|"
    r"puisque|porque|pues|perché|потому что|так как)|,\s+()(with))\b(.*)"
)
_CONTRAST = re.compile(
    r"(?i)(?<!;)(?:,\s+|\s+(?:[–-]\s+|(?=\()|(?=(?:and|und|et|y|e|и)"
    r" )))\(?(?:(?:and|und|et|y|e|и) )?"
    r"(?:not|nicht|pas|no|non|не) [^\s,;()]+(?: [^\W\d_]+)?\)?"
)
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")


def _numbers(text: str) -> list[str]:
    """The numbers of `text` in digits, then those in words."""
    return [*_NUMERAL.findall(text), *filter(is_number_word, words_of(text))]


def _without_reason(text: str, asked: Asked) -> str | None:
    """`5` of "5, because 2 + 3 = 5" and of "5, not 6"; an "as" may take it back: "5 each, as 10 in
    total"."""
    if (
        (other := _CONTRAST.search(text))
        and other.end() == len(text)
        and re.search(r"\d", text[: other.start()])
    ):
        return text[: other.start()]
    found = _REASON.search(text)
    if not found or "?" in found[0] or any(map(changes, words_of(found[5]))):
        return None
    said, numbers = text[: found.start()], _numbers(found[5])
    taken_back = (
        found[2] in ("as", "which")
        and not found[1]
        and numbers
        and numbers[-1] not in _NUMERAL.findall(said)
    )
    return said if said and not taken_back else None


_ASIDE = re.compile(r"(.*\S)(?: \(|, (?:soit|i\.e\.,?|that is,?|d\. ?h\.) )([^()]+)\)?")
_LAST_VALUE = re.compile(r"(?:\$?\d[\d.,:]*(?: ?(?:[^\W\d_]|[/²³%°])+)?)?$")


def _aside(text: str, asked: Asked) -> str | None:
    """`99 cents` of "99 cents ($0.99)", where the aside says the same, and `octagon` of "octagon (8
    sides)"."""
    found = _ASIDE.fullmatch(text)
    if found is None or any(map(changes, words_of(found[2]))):
        return None
    own, numbers = map(_numbers, found.groups())
    if not own:
        return found[1] if re.search(r"\d [a-z]|=", found[2]) and "=" not in found[1] else None
    foreign = number_said(found[2], asked.text)
    one, other = (
        value(_LAST_VALUE.search(found[1])[0]),
        value(foreign.answer if foreign else found[2]),
    )
    nth = isinstance(one, Quantity) and len(numbers) == 1 and PARTS.get(numbers[0]) == one.value
    algebra = isinstance(one, Expr | Relation) or isinstance(other, Expr | List | Relation | Set)
    return found[1] if nth or (not algebra and compare(one, other, " ", None)[0]) else None


_CONCLUSION = re.compile(
    rf"(?i)(?:^|(?<=[\s,;:—–，。、]))(?:{CONCLUDING}|giving|leaving|which"
    r" (?:gives|makes|leaves|means)|i\.e\.|"
    r"that(?: is|['’]s))(?:[\s,:，、"
    r"]+|(?<=[㐀-鿿ぁ-ん]))|(?:⟹|⇒|=>|\\implies|\\Rightarrow)\s*|;\s+(?=the\b)"
)
_COLON = re.compile(r"(?<=[^\W\d_]{3}):\s+")
_BOLD = re.compile(r"\*\*+([^*]+)(?:\*\*+|$)|__([^_]+)(?:__|$)")


def _conclusion(text: str, asked: Asked) -> str | None:
    """`it is odd` of "f(-x) = -f(x), so it is odd": the way to it is no answer. What alone is bold
    is one."""
    cuts = list(_CONCLUSION.finditer(text)) or (
        list(_COLON.finditer(text)) if text.count(":") == 1 else []
    )
    way, said = (text[: cuts[-1].start()], text[cuts[-1].end() :]) if cuts else ("", text)
    if cuts and isinstance(asked.gold, Quantity):  # "5, so it is prime", "there are two: 3 and 4"
        given, items = (
            value(way.strip(" ,;")),
            [item for item in re.split(r",|\band\b", said) if item.strip()],
        )
        follows = (
            isinstance(given, Quantity)
            and not _numbers(said)
            and not any(map(changes, words_of(text)))
        )
        counted = re.search(r"(?i)how many|number of", asked.text) and [
            *map(number, _numbers(way.lower()))
        ]
        if follows or (text[cuts[0].start()] == ":" and counted == [len(items)]):
            return way
    if (
        hedge(way)
        or not re.search(r"\w", said)
        or (cuts and asked.several and not _CONCLUSION.match(cuts[-1][0]))
    ):
        return None
    asked_of, new = ([word for word in words_of(part) if len(word) > 3] for part in (way, said))
    if (
        re.search(r"\d", way)
        and any(map(asked.has, asked_of))
        and new
        and not any(map(asked.has, new))
    ):
        return None  # "The remainder is 2, so the quotient is 5."
    bold = ["".join(found) for found in _BOLD.findall(said)]
    around = _BOLD.sub(" ", said)
    alone = len(bold) == 1 and not (
        asked.several or hedge(around) or any(map(changes, words_of(around)))
    )
    if alone and (
        behind := re.match(r"\s*([^\s*_.,;:!]+)", said[_BOLD.search(said).end() :])
    ):  # "**5** km"
        alone = not known(unit(f" {behind[1]}") or "") and not is_number_word(behind[1])
    alone = (
        alone
        and not bold[0].endswith(":")
        and (not words_of(bold[0]) or any(map(asked.lacks, words_of(bold[0]))))
    )
    return bold[0] if alone else said.replace("**", "") if asked.several else said


# ---- lists, signs in words, and the numbers of other languages


def _in_digits(text: str, asked: Asked) -> str:
    return in_digits(text, asked.text) if asked.foreign else text


# What may stand between the items of a list beside commas.
_MARKS = [
    re.compile(rf"\s*(?:{mark})\s*") for mark in ("[-–—]", r"→|->|\\to(?![a-z])", "[/|•&]", r"\s")
]
_ITEMS = re.compile(r"(?:^|\s)(?:[-*•]|\(?\d[.)])\s+|\n")  # "1. B 2. C", or one on each line
_REMAINDER = re.compile(r"(?i)(-?\d+),?\s*(?:r|rem\.?|remainder|rest|reste|resto|остаток)\s*(\d+)")
_CONSTANT = re.compile(
    r"(.*\S)\s*[+-]\s*(?:([a-zA-Z])(?:_\{?\d\}?)?|\\text\{\s*const\w*\.?\s*\}|const\w*)"
)
_ALL = re.compile(
    r"(?i)^(?:for )?(?:(?:all|any|every) )?(?:real )?(?:(?:numbers|values) )?(?:of )?(?:(?:[a-z]"
    r" )?(?:with|that) )?"
)
_RADIANS = re.compile(
    r"(?:\\frac\{(\d*) ?\\pi ?\}\{(\d+)\}|(\d*) ?\\pi ?(?:/ ?(\d+))?) ?(?:rad|radians?)?\.?"
)
_FROM_TO = r"(?:between|from) ([^a-z,]+) (?:and|to) ([^a-z,]+)"
_UNIT = re.compile(r"(.*[\d}i)])[\s\\]*(平方|квадратн\w+ )?([Ѐ-ӿ]{2,12}|[㐀-鿿]{2,4})")
_SIGNS = {  # as replacements
    r"(?:greater|bigger|larger|more) than or equal to|at least|mayor o igual (?:que|a)|supérieure?"
    r" ou égale? à|größer "
    r"(?:oder )?gleich|maggiore o uguale a|maior ou igual a|больше или равно|大于或?等于|不小于": (
        r"\\ge"
    ),
    r"(?:less|smaller) than or equal to|at most|menor o igual (?:que|a)|inférieure? ou égale?"
    r" à|kleiner (?:oder )?"
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


def _symbols(text: str, asked: Asked) -> str | None:
    r"""`x = 3` of "x is 3", `x^2 + C` of "x^2 + k", `a > 0` of "all positive a", `1/3` of "1 in
    3"."""
    said = re.sub(
        r"(?i)(?<![\w-])(?:minus |negative )?[a-z]{3,}(?:-[a-z]+)?(?![\w-])", _digits, text
    )
    equation = re.sub(
        r"(?<![^\W\d_]['’])\b([b-zB-HJ-Z]) (?:is(?: equal to)?|equals|can be) (?=[-−±$\\π√(\d])",
        r"\1 = ",
        said,
    )
    if equation != said or isinstance(asked.gold, Interval):
        text = equation
    if isinstance(asked.gold, Ratio):
        text = re.sub(r"\b(\w+) is to (\w+)$", _spoken_ratio, text)
    if (
        isinstance(asked.gold, Expr)
        and re.search(r"\+\s*C$", asked.gold.text)
        and (found := _CONSTANT.fullmatch(text))
    ):
        named = found[2] and re.search(
            rf"(?<![A-Za-z\\])(?:C|{found[2]})(?![A-Za-z])", asked.text + found[1]
        )
        return None if named else f"{found[1]} + C"
    if isinstance(asked.gold, Expr) and (found := _UNIT.fullmatch(text.replace("$", "").strip())):
        whole, squares = (found[2] or "") + found[3], re.search("平方|квадратн|²", asked.text)
        if (
            whole in asked.text
            if squares
            else re.search(rf"(?<![^\W\d_]){found[3]}(?!\w)", asked.text)
        ):
            return found[1]
    if isinstance(asked.gold, Quantity) and 0 < asked.gold.value < 1:
        one = r"\b(one|un[aeo]?|eine?|uma?|\d+)(?: chances?)?"
        return re.sub(
            rf"(?i){one} (?:out of|in|von|sur|de|su|из|em|na)(?: cada| every)? ([a-z]+|\d+)$",
            _share,
            text,
        )
    if (
        isinstance(asked.gold, Quantity)
        and asked.gold.unit == "deg"
        and (angle := _RADIANS.fullmatch(plain(text)))
    ):
        turn = Fraction(180 * int(angle[1] or angle[3] or 1), int(angle[2] or angle[4] or 1))
        return text if re.search("degree|°|circ", asked.text) else rf"{turn}^\circ"
    if not isinstance(asked.gold, Interval):
        return text
    for words, sign in _SIGNS.items():
        word = (
            r"(?:\b|(?=[大小不]))(?<!不)(?:(?:is|are|must be|has to be|est?|ist|è|é)"
            rf" )?(?:{words})(?:\b|(?<=[于]))"
        )
        text = re.sub(rf"(?i){word}", sign, text)
    text = _ALL.sub("", text.replace("$", ""))
    if bare := re.fullmatch(
        r"((?:[<>]|\\[gl]e)[^a-z]*)(?: (?:numbers?|values?))?(?: of)?(?: ([a-z]))?", text
    ):
        name = re.search(r"(?<![A-Za-z\\'’])[b-hj-z](?![A-Za-z'’])", asked.text)
        return f"{bare[2] or (name[0] if name else 'x')} {bare[1]}"
    return text


def _digits(match: re.Match) -> str:
    n = number(match[0].lower())
    return match[0] if n is None else str(n)


def _spoken_ratio(match: re.Match) -> str:
    terms = [number(term.lower()) for term in match.groups()]
    return match[0] if None in terms else f"{terms[0]}:{terms[1]}"


def _share(match: re.Match) -> str:
    bottom = number(match[2].lower())
    return match[0] if bottom is None else f"{match[1] if match[1].isdigit() else 1}/{bottom}"


def _listed(text: str, asked: Asked) -> str | None:
    """`B, C, A` of "1. B 2. C 3. A" or "B – C – A", where the gold has as many values."""
    text = re.sub(
        r"(?i)^(?:either|both|entweder|soit|o bien|либо) (?=.* (?:or|and|oder|soit|o|либо) )",
        "",
        text,
    )
    if not asked.several:
        return text
    if (
        isinstance(asked.gold, Interval | Tuple)
        and LABELLED.search(asked.text)
        and not re.search(r"[()\[\]]", text)
    ):
        return f"({text})"
    if asked.foreign:
        text = _JOINTS.sub(" or ", text) if re.search(r"\d|=", text) else _JOINTS.sub(", ", text)
        text = text.replace("、", ", ")
    n = len(asked.gold.items)
    # 0.05 < 0.5 < 0.55, where an order is asked for
    if re.fullmatch(rf"[-−\d./ ]+(?:[<>][-−\d./ ]+){{{n - 1}}}", text):
        text = re.sub(r"\s*[<>]\s*", ", ", text)
    if n > 2 and isinstance(asked.gold, List) and re.fullmatch(r"\[[^\[\]]*\]", text):
        text = text[1:-1]
    if n == 2 and (found := _REMAINDER.fullmatch(text)):
        return f"{found[1]}, {found[2]}"
    items = [item.strip(" ,;") for item in _ITEMS.split(text) if item.strip()]
    if len(items) == n > 1:
        return ", ".join(items)
    if re.search(r"[,=]|;| or ", text):
        return text
    for mark in _MARKS:
        items = mark.split(text)
        alike = len(items) == n and all(re.fullmatch(r"[\w.']+", item) for item in items)
        if alike and (n > 2 or not re.search(r"\d", text)):
            return ", ".join(items)
    return text


def _decimals(text: str, asked: Asked) -> str | None:
    """`12.5` for "12,5", where the gold, the question or a semicolon shows that a comma can be
    nothing else."""
    if re.search(r"[(\[]", text):
        return None
    if asked.foreign or re.search(r"\d\.\d{3}\.\d{3}", text):
        text = re.sub(
            r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?![\d.])", lambda m: m[0].replace(".", ""), text
        )
    if isinstance(asked.gold, Ratio) and re.fullmatch(r"\d+(?:\s*/\s*\d+){2,}", text):
        return text.replace("/", ":")
    comma = r"(?<![\d.,])(\d+),(\d+)(?![\d,])"
    exact = (
        isinstance(asked.gold, Quantity)
        and "." in asked.gold.written
        and re.fullmatch(rf"[-−–$ ]*{comma}.*", text)
    )
    shown = asked.foreign or ";" in text or re.search(r"\d,\d{1,2}(?!\d)", asked.text)
    if (";" in text or not re.search(r",\s", text)) and (
        exact or shown or re.search(rf"{comma}\s*\\?%", text)
    ):
        text = re.sub(comma, r"\1.\2", text)
    return text


Step = Callable[[str, Asked], str | None]
STEPS: list[Step] = [
    _without_reason,
    _aside,
    _in_digits,
    _conclusion,
    _symbols,
    told,
    _listed,
    _decimals,
]
