r"""Second readings of an answer that is wrong as it is written, where its question says how to take it.

`readings` makes the text simpler step by step: what it denies or takes back goes, then the way to its conclusion, its
remarks, the marks of a list, and at last the words around the one thing that the question does not say itself. Each
step goes on from the one before it, so a text has one reading and no choice of several; each is judged like any answer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from rewards.verifier import phrases
from rewards.verifier.notation import number, split
from rewards.verifier.told import DOUBTS, FUNCTION_WORDS, JOINTS, NOT, Asked, stem, told
from rewards.verifier.units import shifts
from rewards.verifier.value import Interval, List, Quantity, Ratio, Set, Tuple, Union, Value, value

_LONGEST = 300  # characters of an answer and the last of a question that are looked at
_PLAIN = re.compile(r"[-−$\s]*(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d{1,2}|\.\d{4,})?[\s$]*(?:\\?%)?")
# Without a word, a mark of a list or a comma, a formula has no second reading.
_WORTH = re.compile(
    r"(?<![\\a-zA-Z])[^\W\d_]{2}|[,;|#!?→⟹⇒–—]|[+-]\s*[a-zA-Z]$|\.\d{3}(?!\d)|\d[ºª]|\d\s*/\s*\d+\s*/|\d\s+[^\W\d_]\s+\d"
)
LABELLED = re.compile(r"\(?(?:a|i|1)\).*\(?(?:b|ii|2)\)", re.DOTALL)  # (a) 5; (b) 7
_RIVALS = re.compile(
    r"(?i)\b(?:or|either|another|other|alternativ\w*|also|possib\w*|candidates?|options?|else|maybe|ou|oder|o|или|"
    r"final (?:answer|result)|the answer)\b"
)
_DRAWN = re.compile(
    r"(?i)\b(?:so|thus|hence|therefore|consequently|together|in total|altogether|overall|combined|finally|in the end|"
    r"i\.e\.|that is|giving|gives|correct(?:ed|ion)|donc|ainsi|au total|soit|somit|insgesamt|zusammen|folglich|por "
    r"(?:lo )?tanto|en total|así|quindi|in totale|portanto|no total|итого|значит|поэтому|всего)(?!\w)|所以|因此|一共"
)

# ---- words of several languages that make a step

_BUT = r"(?:but(?: rather)?|sondern|mais(?: plutôt)?|sino|ma|bensì|mas(?: sim)?|а|lecz|ale|maar|utan|men|ci|melainkan)"
_ONLY = r"(?!only|just|nur|seulement|s[oó]lo|soltanto|apenas|только|tylko|alleen|sure|certain)"
_INSTEAD = (
    r"(?:rather than|instead of|statt|anstatt|plutôt que|au lieu de|en (?:lugar|vez) de|invece di|em vez de|вместо|"
    rf"(?:and |und |et |y |e |и |i |en )?{NOT})"
)
_ATOM = r"[-−+$€£(\\]*\d[\d.,/]*[\w°^{}$)]{0,6}(?: [^\W\d_]{1,12})?"  # what is denied: a number, maybe with a unit
_CONTRASTS = [
    re.compile(rf"(?i)[^\d,;.]{{0,25}}\b{NOT} {_ONLY}[^,;.]{{1,30}}?,? {_BUT} (.+)"),
    re.compile(r"(?i)(?:ce )?n['’]est pas [^,;.]{1,30}, c['’]est (.+)"),
    re.compile(rf"(?i)([^?]+?)(?: ?[,;(–—-] ?| ){_INSTEAD} {_ONLY}{_ATOM}\)?"),
    re.compile(r"不是[^，,。]{1,20}[，,]?\s*(?:而是|是)(.+)|(.{1,30}?)[，,]?\s*(?:而)?不是[^，,。是]{1,20}"),
    re.compile(
        r"(?:.{0,20}は)?[^、,。]{1,20}ではなく[、,]?(.+?)(?:です)?|[^,]{1,20}[이가] 아니라 (.+?)(?:입니다|이다)?"
    ),
]
_SURELY = (
    r"(?:i(?: am|['’]m) (?:quite |very |absolutely )?(?:sure|certain|confident)|definitely|certainly|clearly|"
    r"obviously|surely|undoubtedly|evidently|(?:without|no) (?:a |any )?doubt|for (?:sure|certain)|of course|"
    r"sicher(?:lich)?|natürlich|ohne zweifel|sans (?:aucun )?doute|certainement|bien sûr|sin duda|seguro|senza "
    r"dubbio|sicuramente|sem dúvida|точно|несомненно|конечно)"
)
_SURE = re.compile(
    rf"(?i)^{_SURELY}\b[,:]? (?:that )?(?:it is |it['’]s )?|[,;.–—-]? ?\(?{_SURELY}(?: (?:of it|about it|about that|"
    rf"that))?\)?[.!]?$|"
    rf"(?<=\d)!$"
)
_CORRECTED = re.compile(
    r"(?i)\?\s*(?:no|nein|non|нет)[,.:–—]\s*|,? but (?:it|that|this|x) (?:is|should be|must be)\s+|"
    r",? but (?=\S+ is (?:correct|right))|"
    r"(?:\.\.\.|…|\s?[–—-]|[,.;:!])\s*(?:no|nein|non|não|нет|nee|nie),\s*(?=[-−\\$]*\d)|[,.;:]\s*(?:but )?(?:the "
    r"(?:correct|right|actual|true|final|real) (?:value|answer|result|number|one) is|actually|in fact|make that)\s+|"
    r"(?:[.,;:!?–—-]|\s)\s*(?:(?:no|nein|non|não|нет|nee|nie)\b[,.!]?\s*)?(?:wait|hold on|correct(?:ion|ed)|sorry|"
    r"oops|scratch that|i meant?|(?:or )?rather(?! than)|attend[sz]?|pardon|plutôt|korrektur|halt|moment|warte|"
    r"vielmehr|espera|perd[óo]n|corrección|mejor dicho|aspetta|anzi|correzione|espere|correção|ou melhor|поправка|"
    r"постой\w*|точнее|вернее|等等|不对|更正)(?!\w)[\s,.:!–—-]*"
)
_SO = re.compile(
    r"(?i)\s*(?:⟹|⇒|=>|\\(?:implies|Rightarrow)(?![a-z]))\s*|(?:[.,;:–—(-]|\s-)\s*(?:(?:and|und|et|y|e|и) )?(?:so(?! "
    r"(?:on|forth))|hence|thus|therefore|i\.e\.|that is|which is|in other words|namely|donc|soit|c['’]est-à-dire|"
    r"d['’]où|d\.h\.|das heißt|somit|folglich|daher|así que|por (?:lo )?tanto|es decir|o sea|quindi|dunque|cioè|"
    r"ossia|portanto|logo|ou seja|isto é|поэтому|значит|то есть|т\.\s?е\.|więc|czyli|zatem|dus|oftewel|alltså|deci|"
    r"yani|所以|因此|即|だから|よって|つまり|따라서|즉)(?!\w)[\s,:]*(?!\s)"
)
_SINCE = re.compile(
    r"(?i)(?:since|because|as|da|weil|puisque|comme|como|poiché|так как) [^,;?]+, (?:also |so "
    r")?([^,;?]+)"
)
_SO_TOO = re.compile(r"[.,;:–—-]\s*(?:also|luego|entonces)\s+")  # "5, also 6" is no conclusion in English
_SENTENCES = re.compile(r"(?<=[.!?。])\s*(?=[^\W\d_])|[;–—]\s+|\s-\s+|:\s+(?=[-−\\$]*\d)")
_OPENERS = (
    r"(?:since|because|as|by|verified|checked|confirmed|found|obtained|using|from|the|check|see|where|with C|C |weil|"
    r"denn|da|puisque|parce que|porque|ya que|pues|perché|poiché|так как|потому что|bo|因为|namely|in words|both|all)"
)
_REMARK = re.compile(rf"(?i)(.*?\S)\s*(?:\(({_OPENERS}\b[^()]*(?:\([^()]*\)[^()]*)*)\)|[–—]\s*({_OPENERS}\b.*))")
_NO_REMARK = re.compile(
    r"(?i)\b(?:or|other|another|also|else|if|unless|without|including|excluding|counting|alternativ\w*|possib\w*|"
    r"candidates?|about|approx\w*|round\w*|estimat\w*|at (?:least|most)|ou|oder|o|либо|или|autre|andere)\b|\?"
)
_NOTHING_ELSE = re.compile(
    r"(?i)[,;.]?\s*(?:\(|– |and )?(?:(?:and )?nothing else|(?:and )?no(?:ne)? others?|and only (?:these|those|this)|"
    r"no other solutions?|sonst (?:nichts|keine)|rien d['’]autre|nada m[áa]i?s|nient['’]altro|больше ничего|и "
    r"только)\)?"
)
_FOR_ALL = re.compile(
    r"(?i)[,;]?\s*\(?\s*(?:for (?:all|every|any)|für alle|pour tout|para tod[oa]s?|per ogni|для (?:всех|любого)|"
    r"\\forall|∀)\s?(?:real |reellen? |réel |действительных )?(?:numbers? |values? of )?[a-zA-Z]?\s*(?:(?:∈|"
    r"\\in)\s*\S+)?\)?"
)
_THEN = re.compile(
    r"(?i)\s*,?\s+(?:and )?(?:then|next|finally|followed by|dann|danach|puis|ensuite|luego|después|poi|depois|затем|"
    r"потом)\s+"
)
_RISING = re.compile(
    r"(?i)ascend|increas|smallest|lowest|least|youngest|shortest|lightest|cheapest|slowest|aufsteigend|kleinste|"
    r"croissant|plus petit|ascendente|menor a|crescente|возраст"
)
_FALLING = re.compile(
    r"(?i)descend|decreas|greatest|largest|biggest|highest|oldest|longest|heaviest|fastest|absteigend|größte|"
    r"décroissant|plus grand|descendente|mayor a|decrescente|убыва"
)
_LEAD = re.compile(
    r"[^\W\d_][^\d=<>(){}$\\]{2,60}?(?<!\w)(?:is|are|sind|ist|lauten|sont|est|son|es|sono|è|são|é|это|są|vaut|vale|beträgt|wynosi|:|"
    r"—)\s+(?=[-−(\d\\a-z])"
)
_NAMED = re.compile(r"(?i)(?:the )?([^\W\d_]{3,}(?: [^\W\d_]{3,})?\s*(?:is|=|:)?)\s+([-−]?[\d(][^A-Za-z]*)")
# What may stand between the items of a list beside commas; a product is a list of factors alone.
_MARKS = [
    re.compile(rf"\s*(?:{mark})\s*")
    for mark in ("[-–—]", r"→|->|\\to(?![a-z])", "[/|•]", r"\s", r"[·⋅×*]|\\cdot|\\times")
]
_FACTORS = re.compile(r"(?i)factor|Primfaktor|facteur|fattori|множител|因数|czynnik")
_SIGNS = {"positive": ">0", "negative": "<0", "nonnegative": r"\ge 0", "nonpositive": r"\le 0"}
_DECREASE = re.compile(
    r"(?i)(?:an? |it (?:is |has )?)?(?:(?:overall |net )?(?:decrease|drop|fall|loss|reduction|decline)[sd]?|falls|"
    r"fell|lost|down) (?:of |by )?(\d.*)|(?:minus|negative|moins|menos|meno|минус) (\d.*)|(\d[\d.,]*\s*(?:degrees?|"
    r"°\s?[CF]?)?) below zero"
)
_SIGN = re.compile(
    r"(?i)(?:(?:all|any|every) )?(?:real )?(?P<sign>(?:non-? ?)?(?:positive|negative))(?: real)?(?: numbers?| "
    r"values?)?(?: of)?(?: (?P<name>[a-z]))?|(?P<name2>[a-z]) (?:is |must be )(?P<sign2>(?:non-? ?)?(?:positive|"
    r"negative))"
)
_COMPARED = re.compile(
    r"(?i)(?:(?:all|any|every) )?(?:(?:real )?numbers |values )?(?:of )?(?:(?P<name>[a-z]) )?(?:(?:that |which "
    r")?(?:is|are|must be) )?(?:(?P<ge>(?:greater than or equal to|at least))|(?P<le>less than or equal to|at most)|"
    r"(?P<gt>(?:greater|bigger|larger|more) than|above)|(?P<lt>(?:less|smaller) than|below)) (?P<n>[-\d./\\a-z{}]+)"
)


def readings(gold: Value, answer: str, question: str) -> Iterator[str]:
    """The texts that `answer` comes to, each step once; none for a plain number or a long text."""
    several = isinstance(gold, List | Set | Tuple | Interval)
    if len(answer) > _LONGEST or _PLAIN.fullmatch(answer) or not (several or _WORTH.search(answer)):
        return
    asked, text = Asked(gold, question[-_LONGEST * 3 :]), answer.strip().rstrip(".。")
    for step in STEPS:
        if (made := step(text, asked)) and made != text:
            text = made.strip(" ,;")
            yield text


def concluded(answers: list[str], leads: Sequence[str], gold: str, question: str | None) -> list[str]:
    """The `answers` of a text, or the last alone, where its lead says that it is what the question asks for and the
    others are on the way: "x = 15. In ten years Jo will be 25"."""
    if len(answers) < 2 or len(leads) != len(answers) or not question or any(map(_RIVALS.search, leads)):
        return answers
    *before, last = ({stem(w) for w in re.findall(r"[^\W\d_]+", lead.lower())} for lead in leads)
    names = [re.search(r"(?<![A-Za-z])([A-Za-z])\s*=[\s$]*$", lead) for lead in leads]
    if isinstance(value(gold), Interval | Tuple):
        return [", ".join(f"{n[1]}={a}" for n, a in zip(names, answers, strict=True))] if all(names) else answers
    drawn = _DRAWN.search(leads[-1])
    if isinstance(value(gold), List | Set | Union) or LABELLED.match(gold):
        return answers[-1:] if drawn and isinstance(value(answers[-1]), List | Set | Union) else answers
    asked = {stem(w) for w in re.findall(r"[^\W\d_]+", question.lower()) if w not in FUNCTION_WORDS} & last
    told = all(before) and not any(last == each or (asked and asked <= each) for each in before)
    return answers[-1:] if told and (asked or drawn) else answers


def _certain(text: str, asked: Asked) -> str | None:
    """`9` of "I am sure that it is 9" or "9, without doubt"."""
    text = re.sub(r"(?i) is (?:the )?(?:correct|right)(?: one| answer| value)?$", "", _SURE.sub("", text))
    return re.sub(r"^(?:→|⇒|=>)\s*", "", text)


def _contrast(text: str, asked: Asked) -> str | None:
    """`125` of "125, not 15", `6` of "Nicht 5, sondern 6"."""
    found = next(filter(None, (pattern.fullmatch(text) for pattern in _CONTRASTS)), None)
    kept = found and next(filter(None, found.groups()), None)
    return kept if kept and ("%" not in text or "%" in kept) else None


def _correction(text: str, asked: Asked) -> str | None:
    """`It is 20` of "18. No, wait – I missed 2. It is 20"."""
    marks = list(_CORRECTED.finditer(text))
    return _SENTENCES.split(text[marks[-1].end() :])[-1] if marks and marks[-1].start() else None


def _conclusion(text: str, asked: Asked) -> str | None:
    """`1/8` of "4/32, soit 1/8"."""
    since, marks = _SINCE.fullmatch(text), [*_SO.finditer(text), *(_SO_TOO.finditer(text) if asked.foreign else ())]
    if not (since or marks) or phrases.hedge(text):
        return None
    if since:
        return since[1]
    rest = text[max(mark.end() for mark in marks) :]
    return rest.rstrip(")") if "(" not in rest else rest


def _remark(text: str, asked: Asked) -> str | None:
    """`3 : 2` of "3 : 2 (van to car)", where the question says "van to car"; `1` of "1 (the sums tend to it)"."""
    text = _FOR_ALL.sub("", _NOTHING_ELSE.sub("", text)) if len(text) > 8 else text
    if isinstance(asked.gold, Ratio):
        of = re.fullmatch(
            r"(?:ratio )?([^\W\d_]+(?: ?(?::|to) ?[^\W\d_]+)+)\s*=\s*([^=]+)|([^()]+?)\s*\(([^()=]+)\)", text
        )
        names = of and [w for w in re.findall(r"[^\W\d_]+", of[1] or of[4]) if w != "to"]
        if names and re.search(r"\W+(?:\w+\W+)?".join(names), asked.text, re.IGNORECASE):
            return of[2] or of[3]
    if (twice := re.fullmatch(r"([a-z -]+?) \((\d+)\)", text.lower())) and number(twice[1]) == int(twice[2]):
        return twice[2]
    if (named := re.fullmatch(r"(.*?\S)\s*\(([^()]*[^\W\d_]{2}[^()]*)\)", text)) and _flat(named[2]) in _flat(
        asked.text
    ):
        return named[1]
    remark = _REMARK.fullmatch(text)
    said = remark and (remark[2] or remark[3])
    dropped = said and re.match(
        r"(?i)the other\b.*\b(?:excluded|rejected|discarded|extraneous|impossible|too (?:large|small))", said
    )
    return remark[1] if said and (dropped or not (_NO_REMARK.search(said) or phrases.hedge(text))) else text


def _flat(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", text.lower())) + " "


_SCALES = [
    (10**n, re.compile(rf"(?i)(?<![\d.,])(\d+(?:[.,]\d+)?)\s*(?:{words})(?!\w)"))
    for n, words in (
        (9, r"mil+i?ard[\w.]*|miljard|миллиард\w*|mrd\.?|mld\.?|bilh(?:ão|ões)|mil millones"),
        (6, r"million(?:s|en)|mill[oó]n(?:es)?|milh(?:ão|ões)|milion[\w.]*|миллион\w*|miljoen"),
        (3, r"tausend|mill?e|mila|mil|тысяч\w*|duizend"),
    )
]
_RATIO_SIGN = re.compile(
    r"(?i)(?:(?:im |in einem )?verhältnis (?:von )?|(?:dans )?(?:le |un )?rapport (?:de )?|(?:en |la )*raz[óo]n "
    r"(?:de |es )?|de |в отношении |как )?(\d+)\s*(?:pour|zu|à|a|contre|к|per|till|naar|do|su|por|für|на|比|対|"
    r"대)\s*(\d+)(?:\s*(?:pour|zu|a|к|比)\s*(\d+))?"
)


def _decimals(text: str, asked: Asked) -> str | None:
    """`12.5` for "12,5", where the gold, the question or a semicolon shows that a comma can be nothing else."""
    if re.search(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?![\d.])", text) or asked.foreign:
        text = re.sub(
            r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?![\d.])",
            lambda m: m[0].replace(".", "") if asked.foreign or m[0].count(".") > 1 else m[0],
            text,
        )
    written = text
    for scale, words in _SCALES:
        text = words.sub(lambda m, scale=scale: str(Fraction(m[1].replace(",", ".")) * scale), text)
    if isinstance(asked.gold, Ratio) and re.fullmatch(r"\d+(?:\s*/\s*\d+){2,}", text):
        return text.replace("/", ":")
    if isinstance(asked.gold, Ratio) and (ratio := _RATIO_SIGN.fullmatch(text)):
        return ":".join(filter(None, ratio.groups()))
    comma = r"(?<![\d.,])(\d+),(\d+)(?![\d,])"
    apart = ";" in text or not re.search(r",\s", text)
    single = (
        isinstance(asked.gold, Quantity) and "." in asked.gold.written and re.fullmatch(rf"[-−–$ ]*{comma}.*", text)
    )
    shown = asked.foreign or text != written or ";" in text or re.search(r"\d,\d{1,2}(?!\d)", asked.text)
    if apart and (single or shown or re.search(rf"{comma}\s*\\?%", text)):
        text = re.sub(comma, r"\1.\2", text)
    return text


def _listed(text: str, asked: Asked) -> str | None:
    """`B, C, A` of "B < C < A", "1. B 2. C 3. A" or "B – C – A", where the gold has as many values."""
    text = re.sub(r"(?i)^(?:either|both|entweder|soit|o bien|либо) (?=.* (?:or|and|oder|soit|o|либо) )", "", text)
    if lead := _LEAD.match(text):
        changed = DOUBTS.search(lead[0]) or phrases.hedge(lead[0]) or any(map(shifts, lead[0].lower().split()))
        rest = JOINTS.sub(" ", text[lead.end() :].replace(" and ", " ").replace(" or ", " "))
        text = text if changed or re.search(r"(?<!\\)[^\W\d_]{3}", rest) else text[lead.end() :]
    if not asked.several:
        return text
    if isinstance(asked.gold, Interval | Tuple) and LABELLED.search(asked.text) and not re.search(r"[()\[\]]", text):
        return f"({text})"
    if asked.foreign:
        text = JOINTS.sub(" or ", text) if re.search(r"\d|=", text) else JOINTS.sub(", ", text)
        text = text.replace("、", ", ")
    if isinstance(asked.gold, List) and len(asked.gold.items) > 2 and re.fullmatch(r"\[[^\[\]]*\]", text):
        text = text[1:-1]
    text = re.sub(r"(?i)^(?:first|zuerst|d['’]abord|primero|prima) ", "", text) if _THEN.search(text) else text
    text, n = _THEN.sub(", ", text.replace(" & ", ", ")), len(asked.gold.items)
    if n == 2 and (
        rest := re.fullmatch(r"(-?\d+),?\s*(?:r|rem\.?|remainder|rest|reste|resto|остаток)\s*(\d+)", text, re.I)
    ):
        return f"{rest[1]}, {rest[2]}"
    if len(parts := _without_names(text, asked.text)) == n:
        text = ", ".join(parts)
    if (parts := _numbered(text, n)) or (parts := _ranked(text, n, asked.text)):
        return ", ".join(parts)
    if re.search(r"[,=]|;| or ", text):
        return text
    lines = [re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", line.strip()) for line in text.splitlines() if line.strip()]
    if len(lines) == n > 1:
        return ", ".join(lines)
    for sign in _MARKS if _FACTORS.search(asked.text) else _MARKS[:-1]:
        parts = _powers(sign.split(text)) if sign is _MARKS[-1] else sign.split(text)
        if (
            len(parts) == n
            and (n > 2 or not re.search(r"\d", text))
            and all(re.fullmatch(r"[\w.']+", p) for p in parts)
        ):
            return ", ".join(parts)
    return text


def _without_names(text: str, question: str) -> list[str]:
    """The items of "radius 7, centre (1,0)", if the question has their names; a number keeps its name as a unit."""
    parts = [_NAMED.fullmatch(part.strip()) for part in split(text, re.compile(r"[,;]| and "))]
    names = [re.sub(r"\s*(?:is|=|:)?\s*$", "", part[1].lower()) for part in parts if part]
    places = [question.lower().find(name) for name in names]
    if not all(parts) or not places or places[0] < 0 or places != sorted(set(places)):
        return []
    simple = all(re.fullmatch(r"[-−]?\d+(?:\.\d+)?", part[2]) for part in parts)
    if simple and not phrases.ORDER.of(question.lower()):
        return [f"{part[2]} {name}" for part, name in zip(parts, names, strict=True)]
    return [part[2] for part in parts]


def _numbered(text: str, n: int) -> list[str] | None:
    """The items of "1. power 2. multiplication"."""
    found = re.fullmatch(
        r"\s*" + r"[\s,;]+".join(rf"\(?{k}[.)]\s*(\S[^\n,;]{{0,40}}?)" for k in range(1, n + 1)) + r"\s*", text
    )
    return list(found.groups()) if found and 1 < n < 9 else None


def _ranked(text: str, n: int, question: str) -> list[str] | None:
    """The items of "B < C < A", where the question asks for that direction."""
    wanted = {"<": _RISING, ">": _FALLING}.get("".join({*re.findall("[<>]", text)}))
    parts = re.split(r"\s*[<>]\s*", text)
    named = ((m.start(), sign) for sign, of in (("<", _RISING), (">", _FALLING)) if (m := of.search(question)))
    _, first = min(named, default=(0, ""))
    return parts if wanted and len(parts) == n and first in text and "=" not in text else None


def _powers(parts: list[str]) -> list[str]:
    """`2^2` as two factors."""
    powers = [re.fullmatch(r"(\d+)\^\{?(\d)\}?", part) for part in parts]
    return [
        p for part, power in zip(parts, powers, strict=True) for p in ([power[1]] * int(power[2]) if power else [part])
    ]


def _symbols(text: str, asked: Asked) -> str | None:
    r"""`x^2 + C` of "x^2 + k", `a>0` of "all positive a", `FF8000` of "#FF8000"."""
    written = getattr(asked.gold, "text", "")
    if re.search(r"[+-]\s*C$", written):
        constant = re.fullmatch(
            r"(.*\S)\s*[+-]\s*(?:([a-zA-Z])(?:_\{?\d\}?)?|\\text\{\s*const\w*\.?\s*\}|const\w*)", text
        )
        known_name = (
            constant
            and constant[2]
            and re.search(rf"(?<![A-Za-z\\])(?:C|{constant[2]})(?![A-Za-z])", asked.text + constant[1])
        )
        return f"{constant[1]} + C" if constant and not known_name else text
    if isinstance(asked.gold, Quantity) and asked.gold.value < 0 and (fallen := _DECREASE.fullmatch(text)):
        return "-" + next(filter(None, fallen.groups()))
    text = re.sub(
        r"(?<=[a-z]) an? (?=(?:hour|minute|second|day|week|month|year|person|kilo(?:gram)?|lit[er]{2})\b)",
        " per ",
        text,
    )
    if isinstance(asked.gold, Quantity) and (numbered := re.fullmatch(r"(?i)(?:no\.|nr\.|№|#)\s*(\d+)", text)):
        return numbered[1]
    if isinstance(asked.gold, Quantity) and 0 < asked.gold.value < 1:
        text = re.sub(r"(?i)^(\d+) (?:out of|in|von|sur|de|su|из|em|na) (\d+)$", r"\1/\2", text)
    if re.fullmatch(r"#[\dA-Fa-f]+", text) and not isinstance(asked.gold, Quantity):
        return text[1:].upper()
    if isinstance(asked.gold, Interval):
        if match := _SIGN.fullmatch(text):
            sign = re.sub("[ -]", "", (match["sign"] or match["sign2"]).lower())
            return f"{match['name'] or match['name2'] or _name(asked.text)} {_SIGNS[sign]}"
        if match := _COMPARED.fullmatch(text):
            sign = next(s for s, of in ((r"\ge", "ge"), (r"\le", "le"), (">", "gt"), ("<", "lt")) if match[of])
            return f"{match['name'] or _name(asked.text)} {sign} {match['n']}"
    return text


def _name(question: str) -> str:
    """The variable of a question."""
    found = re.findall(r"(?<![A-Za-z\\'’])[b-hj-z](?![A-Za-z'’])", question) or ["x"]
    return found[0]


STEPS: list[Callable[[str, Asked], str | None]] = [
    _certain,
    _contrast,
    _correction,
    _conclusion,
    _remark,
    _listed,
    _decimals,
    _symbols,
    told,
]
