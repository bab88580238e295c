"""Finds the training problems that a benchmark also asks.

Two problems overlap where their words are the same, or where they share 13 consecutive words (Brown et al. 2020,
arXiv:2005.14165, appendix C). Words are letters and digits alone, so LaTeX and punctuation make no difference; problems
of fewer than 13 words overlap only as a whole, with operators counted, so that 12 − 5 is not 12 + 5.
"""

import re
import unicodedata
from typing import NamedTuple

NGRAM = 13


class Overlap(NamedTuple):
    """`row`: index of the training row; `shared`: the words it has in common with a problem of the benchmark."""

    row: int
    benchmark: str
    problem: str
    shared: str


def words(text: str, word: str = r"[^\W_]+") -> tuple[str, ...]:
    return tuple(re.findall(word, unicodedata.normalize("NFKC", text).casefold().replace("−", "-")))


def overlaps(rows: list[dict], benchmarks: dict[str, list[dict]], n: int = NGRAM) -> list[Overlap]:
    """The rows that overlap with a benchmark, each once, in the order of the rows."""
    owners: dict[tuple[str, ...], tuple[str, str]] = {}
    for name, problems in benchmarks.items():
        for row in problems:
            for gram in _grams(row["problem"], n):
                owners.setdefault(gram, (name, row["problem"]))
    found = []
    for i, row in enumerate(rows):
        shared = next((gram for gram in _grams(row["problem"], n) if gram in owners), None)
        if shared is not None:
            found.append(Overlap(i, *owners[shared], " ".join(shared)))
    return found


def _grams(problem: str, n: int) -> list[tuple[str, ...]]:
    text = words(problem)
    if len(text) < n:
        return [words(problem, r"[^\W_]+|[-+*/=<>]")]
    return [text[i : i + n] for i in range(len(text) - n + 1)]
