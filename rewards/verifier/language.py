"""What a language's words for numbers are, and how they make a number; `languages` has a table of them."""

import re
from dataclasses import dataclass
from functools import cached_property

from rewards.verifier.units import NAMES

# Much the same in all with Latin letters.
_BOUND = r" anything everything nothing except m[ií]n\w*m\w* m[aáà][xks]\w*m\w* l[ií]mi\w* estim\w* ap+rox\w*"
_SCALES = frozenset([1000, 10**4, 10**5, 10**6, 10**7, 10**9])
_PER = re.compile(r"\s*\w+\s*(?:/|pro |por |par |per |à l'|all'|al |na |в )\s*(\w+)")
_W = r"\w\u064b-\u065f\u0900-\u0dff"  # of a word: vowel signs are no letters to Python


def spell(ones: str, tens: str, join: str, big: str = "") -> dict[str, int]:
    """Number words to values: `ones` from 0 on, `tens` from 20 on, between them `join`; "a|b" are two of one value."""
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

    @cached_property
    def common(self) -> frozenset[str]:
        return frozenset(self.marks.split())

    @cached_property
    def changed(self) -> re.Pattern:
        ends = rf"(?<![{_W}])(?:{{}})(?![{_W}])" if self.spaced else "{}"
        return re.compile(
            ends.format((self.changes + _BOUND * (not self.script)).strip().replace("_", r"\s+").replace(" ", "|"))
        )

    @cached_property
    def asked(self) -> re.Pattern:
        return re.compile(rf"(?:{self.how_many})\s*([{_W}]+(?:/[{_W}]+)?)")

    @cached_property
    def number(self) -> re.Pattern:
        """A run of number words."""
        words = "|".join(map(re.escape, sorted(self.numbers, key=len, reverse=True)))
        end = rf"(?={self.counter}(?![{_W}]))" if self.spaced and self.glue.startswith(r"\s+") else ""
        run = rf"(?>{words})(?:(?:{self.glue})(?>{words}){end})*+"  # no way back: 2^n ways to cut a run of n words
        return re.compile(rf"(?<![{_W}]){run}(?={self.counter}(?![{_W}]))" if self.spaced else run)

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
                filled = 10 if n < 10 and (not self.spaced or group % 100 == 0) else 100 if n < 100 else 1000
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
        after = after.lstrip(" $个個か}\\")
        for stem, name in self.unit_of.items():
            if after.startswith(stem):
                return name
        word = re.match(rf"[{_W}]+", after)
        return "" if word is None else NAMES.get(word[0])
