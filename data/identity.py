"""Which problems are the same: repeats, the validation share, and what a benchmark also asks."""

import hashlib
import random
import re
import unicodedata
from typing import NamedTuple

from data.files import DataError
from data.prompt import TURNS

# Marks of LaTeX around a formula, and characters without a width.
_UNSEEN = re.compile(r"\\[()\[\]]|[$\u00ad\u200b-\u200f\u2060\ufeff]")
_DIGITS = 12  # of a fingerprint


def normal_form(problem: str) -> str:
    """A problem's text without what makes no other problem of it: upper or lower case, spaces, the
    width and form of letters and of the minus sign, `$` around formulas, and the mark at its end.
    Digits that stand raised stay apart from others: 2² is not 22."""
    if not problem.isascii():
        letters = (f" ^{c}" if unicodedata.category(c) == "No" else c for c in problem)
        problem = unicodedata.normalize("NFKC", "".join(letters)).replace("−", "-")
    text = _UNSEEN.sub("", problem.casefold())
    return " ".join(re.findall(r"\w+|[^\w\s]", text)).rstrip(" .?:")


def fingerprint(row: dict) -> str:
    """A short hash of what a row asks, in its normal form."""
    text = "\n".join(map(normal_form, questions_of(row)))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGITS]


def questions_of(row: dict) -> list[str]:
    """The texts of the turns before a row's problem, and the problem."""
    return [*(turn["content"] for turn in row.get(TURNS) or []), row["problem"]]


def split_validation(
    rows: list[dict], validation: int, by_place: bool = False
) -> tuple[list[dict], list[dict]]:
    """The (train, validation) rows. Which are held out depends on the problems alone, never on a
    recipe's seed, so that all runs on the same data are evaluated on the same problems.

    Those with the lowest fingerprints are, and so one row more or less moves at most one other.

    Args:
        by_place: hold rows out by their places. Rows that are computed always have the same.

    Raises:
        DataError: fewer than one row would be left to train on.
    """
    if validation >= len(rows):
        message = f"data.validation holds out {validation:,} of {len(rows):,} problems"
        raise DataError(
            f"{message}; nothing is left to train on: leave it out, which holds out a fifth, or add"
            " problems"
        )
    ordered = list(rows)
    if by_place:
        random.Random(0).shuffle(ordered)
    else:
        ordered.sort(key=fingerprint)
    return ordered[validation:], ordered[:validation]


NGRAM = 13


class Overlap(NamedTuple):
    """`row`: index of the training row; `shared`: the words it has in common with a problem of the
    benchmark."""

    row: int
    benchmark: str
    problem: str
    shared: str


def overlaps(rows: list[dict], benchmarks: dict[str, list[dict]]) -> list[Overlap]:
    """The training rows that a benchmark asks too, each once, in the order of the rows.

    Two problems overlap where their words are the same, or where they share 13 consecutive words
    (Brown et al. 2020, arXiv:2005.14165, appendix C). Words are letters and digits alone, so LaTeX
    and punctuation make no difference; problems of fewer than 13 words overlap only as a whole,
    with operators counted, so that 12 − 5 is not 12 + 5.
    """
    owners: dict[tuple[str, ...], tuple[str, str]] = {}
    for name, problems in benchmarks.items():
        for row in problems:
            for gram in _grams(row["problem"]):
                owners.setdefault(gram, (name, row["problem"]))
    overlapping = []
    for i, row in enumerate(rows):
        for gram in _grams(row["problem"]):
            if gram in owners:
                overlapping.append(Overlap(i, *owners[gram], " ".join(gram)))
                break
    return overlapping


def _grams(problem: str) -> list[tuple[str, ...]]:
    text = normal_form(problem)
    words = tuple(re.findall(r"[^\W_]+", text))
    if len(words) < NGRAM:
        return [tuple(re.findall(r"[^\W_]+|[-+*/=<>]", text))]
    return [words[i : i + NGRAM] for i in range(len(words) - NGRAM + 1)]
