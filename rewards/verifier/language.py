"""What a language's words for numbers are, and how they make a number; `languages` has a table of
them."""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from rewards.verifier.units import NAMES

# Much the same in all with Latin letters.
_BOUND = (
    r" anything everything nothing except m[ií]n\w*m\w* m[aáà][xks]\w*m\w* l[ií]mi\w* estim\w*"
    r" ap+rox\w*"
)
_SCALES = frozenset([1000, 10**4, 10**5, 10**6, 10**7, 10**9])
_PER = re.compile(r"\s*\w+\s*(?:/|pro |por |par |per |à l'|all'|al |na |в )\s*(\w+)")
_W = r"\w\u064b-\u065f\u0900-\u0dff"  # of a word: vowel signs are no letters to Python


def spell(ones: str, tens: str, join: str, big: str = "") -> dict[str, int]:
    """Number words to values: `ones` from 0 on, `tens` from 20 on, between them `join`; "a|b" are
    two of one value."""
    small = [word.replace("_", " ").split("|") for word in ones.split()]
    high = [word.replace("_", " ").split("|") for word in tens.split()]
    words = {word: n for n, row in enumerate(small) for word in row}
    words |= {word: 10 * n for n, row in enumerate(high, 2) for word in row}
    for n, row in enumerate(high, 2):
        for m in range(1, 10) if join else ():
            words |= {join.format(t=t, o=o): 10 * n + m for t in row for o in small[m]}
    for entry in big.split():
        names, value = entry.split("=")
        words |= dict.fromkeys(names.replace("_", " ").split("|"), int(value))
    return words


@dataclass(frozen=True)
class Language:
    """What has to be known of a language. In the strings `_` is a space."""

    script: str  # a character class; "" for the Latin letters
    numbers: dict[str, int]
    marks: str  # common words that tell a language with Latin letters
    changes: str  # expressions that make a sentence with one number say something else
    units: str = ""  # "hora=h": words that begin so are this unit
    how_many: str = r"(?!)"
    glue: str = r"\s+"  # what may stand between number words
    spaced: bool = True  # whether words have spaces between them
    comma: bool = False  # whether decimals stand behind a comma
    counter: str = ""  # what may stand right behind a number word
    left_out: str = ""  # expressions with a number word in them that count nothing
    # "cuartos": 1/4; 0 where the number before it says which
    parts: dict[str, Fraction] = field(default_factory=dict)
    joint: str = "(?!)"  # between the whole and the part of a mixed number
    over: str = "(?!)"  # a fraction: {n} over {d}, with its whole {w}
    point: str = "(?!)"  # between a number and its decimals
    minus: str = "(?!)"

    @cached_property
    def common(self) -> frozenset[str]:
        return frozenset(self.marks.split())

    @cached_property
    def changed(self) -> re.Pattern:
        ends = rf"(?<![{_W}])(?:{{}})(?![{_W}])" if self.spaced else "{}"
        return re.compile(
            ends.format(
                (self.changes + _BOUND * (not self.script))
                .strip()
                .replace("_", r"\s+")
                .replace(" ", "|")
            )
        )

    @cached_property
    def asked(self) -> re.Pattern:
        return re.compile(rf"(?:{self.how_many})\s*([{_W}]+(?:/[{_W}]+)?)")

    @cached_property
    def number(self) -> re.Pattern:
        """A run of number words."""
        return re.compile(
            rf"(?<![{_W}]){self._run}(?={self.counter}(?![{_W}]))" if self.spaced else self._run
        )

    @cached_property
    def _run(self) -> str:
        words = self.word.pattern
        end = (
            rf"(?={self.counter}(?![{_W}]))" if self.spaced and self.glue.startswith(r"\s+") else ""
        )
        # "zwei drei Viertel" are two runs.
        apart = (
            rf"(?!(?:(?>{words})\s?)?(?:{'|'.join(self.parts)})(?![{_W}]))" if self.parts else ""
        )
        return (  # no way back: 2^n ways to cut n words
            rf"(?>{words})(?:(?:{self.glue}){apart}(?>{words}){end})*+"
        )

    @cached_property
    def _spoken(self) -> list[re.Pattern]:
        # 三点五分 is a time
        begins, ends = (rf"(?<![{_W}])", rf"(?![{_W}])") if self.spaced else ("", "(?![分刻])")
        part = f"(?P<p>{'|'.join(self.parts) or '(?!)'}){ends}"
        w, t, n, d = (
            rf"(?P<{name}>(?<![\d.,/])\d{{1,9}}+(?![.,]\d)|{self._run})" for name in "wtnd"
        )
        things = (  # "dos horas y media"
            rf"(?:\s(?P<u>\w{{1,20}})(?=\s{self.joint}\s{part.replace('<p>', '<half>')}))?"
        )
        patterns = (
            self.over.format(w=w, n=n, d=d),
            rf"(?:{w}{things}\s?{self.joint}\s?)?(?:{n}\s?)?{part}",
            rf"{w}\s?{self.point}\s?{t}{ends}",
            rf"(?P<minus>{self.minus})\s?(?:{n}|(?=\d|\\frac))",
        )
        # A run of which nothing comes is passed over whole, or each word of it would begin another.
        return [re.compile(rf"{begins}(?:{pattern}|{self._run})") for pattern in patterns]

    def in_digits(self, text: str, question: str = "") -> str:
        """`text` with its fractions, decimals and signs in words as digits; not "cuartos" where
        they are asked for."""
        asked = self.asked.findall(question)
        for pattern in self._spoken:
            text = pattern.sub(lambda m: (m.lastgroup and self._said(m, asked)) or m[0], text)
        return text

    def _said(self, match: re.Match, asked: list[str]) -> str | None:
        said = {**dict.fromkeys("wndtpu"), **match.groupdict()}
        whole, count, below = (
            run and (int(run) if run.isdigit() else self.value(run)) for run in map(said.get, "wnd")
        )
        if said.get("minus"):
            return f"-{said['n'] or '' if count is None else count}"
        if (tail := said["t"]) and whole is not None:
            digits = [self.numbers.get(word, word) for word in self.word.findall(tail) or tail]
            digits = (
                str(self.value(tail)) if max(map(int, digits)) > 9 else "".join(map(str, digits))
            )
            return (  # "1,375" might be thousands, "1,3750" is none
                f"{whole}.{digits}{'0' * (len(digits) == 3)}"
            )
        part = Fraction(1, below) if below else self.parts.get(said["p"], Fraction(0))
        if not said["n"] and (part == 0.5 if said["w"] else part > 1):  # dos y medio, anderthalb
            count = 1
        if (
            not part
            or count is None
            or said["p"] in asked
            or (said["w"] and (whole is None or count * part >= 1))
        ):
            return None
        fraction = f"{count * part.numerator}/{part.denominator}"
        return " ".join(filter(None, [said["w"] and str(whole), fraction, said["u"]]))

    @cached_property
    def word(self) -> re.Pattern:
        return re.compile("|".join(map(re.escape, sorted(self.numbers, key=len, reverse=True))))

    @cached_property
    def unit_of(self) -> dict[str, str]:
        return dict(entry.split("=") for entry in self.units.split())

    def value(self, run: str) -> int | None:
        """What number words in a row come to; None where they are several numbers."""
        total = group = 0
        last, scale = None, 10**12
        for word in self.word.findall(run):
            n = self.numbers[word]
            if n in _SCALES:
                if n >= scale:
                    return None
                total, group, scale = total + (group or 1) * n, 0, n
            elif (n in (10, 100) and not self.spaced) or n == 100:  # 十, and a hundred as a factor
                if last is not None and 0 < last < 10:
                    group += last * (n - 1)
                elif group % (10 * n):
                    return None
                else:
                    group += n
            else:
                filled = (
                    10
                    if n < 10 and (not self.spaced or group % 100 == 0)
                    else 100
                    if n < 100
                    else 1000
                )
                if group % filled or (last is not None and last < 10):
                    return None
                group += n
            last = n
        return total + group

    def unit(self, after: str) -> str | None:
        """The unit that `after` begins with; "" for none, None for a word that is not known."""
        name, per = self._unit(after), _PER.match(after)
        return f"{name} / {self._unit(per[1])}" if name and per and self._unit(per[1]) else name

    def _unit(self, after: str) -> str | None:
        after = re.sub(r"^[ $个個か}\\]*(?:d[ei] |d')?", "", after)
        for stem, name in self.unit_of.items():
            if after.startswith(stem):
                return name
        word = re.match(rf"[{_W}]+", after)
        return "" if word is None else NAMES.get(word[0])
