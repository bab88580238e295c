r"""The verifier's entrance: `judge` and `judge_all` take responses and golds, and return verdicts.

`extract` reduces a response to its answer, and `equal` compares that with the gold by spelling, exact number and
structure. Only the pairs that this does not decide go to the algebra in a worker process (`pool`).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from data.check import read
from data.gold import gold_answer
from rewards.verifier import countdown, pool
from rewards.verifier.equal import NeedsAlgebra, compare_answers
from rewards.verifier.extract import extract

_CACHE_SIZE = 50_000  # pairs of gold and answer
_NUMBER = re.compile(r"-?[\d.,]+")
_MAX_SHOWN = 2000  # characters of all answers of a response; more is no answer and would fill the caches

# Kind of check → a function of an answer and what the check needs, which says whether it is right and what decided.
CHECKS: dict[str, Callable[[str, dict], tuple[bool, str]]] = {"countdown": countdown.compare}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verifier says about a response. Read `.right`: the verdict itself is neither true nor false."""

    right: bool | None  # None if it cannot be judged: there is no gold, or none that can be read
    answer: str | None  # what the response gives as its answer; several are joined by "; "
    reason: str  # what decided, and for words or signs around an answer which of them
    timed_out: bool = False

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is neither true nor false: read its .right, which is True, False or None")


def judge(
    response: str,
    gold: object,
    *,
    question: str | None = None,
    check: str | None = None,
    strict: bool = False,
    timeout: float = 2.0,
) -> Verdict:
    r"""Whether `response` gives the answer `gold`, in at most `timeout` seconds; never raises for a text.

    `gold` is what a data set has: a bare answer, or a worked solution with `\boxed{}` or `####`. With the `question`,
    a copy of it, an option's text, a percent sign and "lowest terms" are judged as it asks. `strict` takes only an
    answer in a closed `<answer>` block. A `check` (data/check.py) decides in place of the gold.

    Raises:
        ValueError: the check cannot be used.

    >>> judge(r"<think>1/2</think><answer>0.5</answer>", r"\frac{1}{2}").right
    True
    """
    return judge_all([response], [gold], [question], [check], strict=strict, timeout=timeout)[0]


def judge_all(
    responses: Sequence[str],
    golds: Sequence[object],
    questions: Sequence[str | None],
    checks: Sequence[str | None] | None = None,
    *,
    strict: bool = False,
    timeout: float = 2.0,
) -> list[Verdict]:
    """`judge` for each response: equal (gold, answer, question) triples are judged once, the algebra in parallel."""
    verdicts: list[Verdict | None] = []
    waiting: dict[tuple, list[int]] = {}
    notes: dict[int, str] = {}
    checks = checks or [None] * len(responses)
    for response, gold, question, check in zip(responses, golds, questions, checks, strict=True):
        expected, found = _gold(gold), extract(response, strict)
        if expected is None and check is None:
            answer = "; ".join(found.answers)[:_MAX_SHOWN] or None
            verdicts.append(Verdict(None, answer, "no gold answer to compare with"))
        elif not found.answers:
            verdicts.append(Verdict(False, None, found.reason))
        elif sum(map(len, found.answers)) > _MAX_SHOWN:
            verdicts.append(Verdict(False, found.answers[0][:_MAX_SHOWN], "too long for an answer"))
        elif check is not None:
            verdicts.append(_by_check(check, found.answers))
        else:
            triple = (expected, tuple(found.answers), question)
            decided = _known.get(triple)
            if decided is None and (decided := _cheaply(*triple)) is None:
                waiting.setdefault(triple, []).append(len(verdicts))
            if found.reason:
                notes[len(verdicts)] = found.reason
            verdicts.append(decided)
    for triple, verdict in zip(waiting, _by_algebra(list(waiting), timeout), strict=True):
        for n in waiting[triple]:
            verdicts[n] = verdict
    for n, note in notes.items():
        if verdicts[n].right is False:
            verdicts[n] = replace(verdicts[n], reason=f"{verdicts[n].reason}; {note}")
    return verdicts


def prepare(golds: Sequence[object]) -> None:
    """Start the workers now, without waiting, if these golds are not all plain numbers: importing the algebra takes
    seconds, which the first answer to need it would wait for. With numbers few answers do, and many runs have none."""
    if not all(_NUMBER.fullmatch(_gold(gold) or "0") for gold in golds):
        pool.POOL.start()


@lru_cache(maxsize=_CACHE_SIZE)
def _gold(gold: object) -> str | None:
    return gold_answer(gold)


@lru_cache(maxsize=_CACHE_SIZE)
def _cheaply(gold: str, answers: tuple[str, ...], question: str | None) -> Verdict | None:
    """The verdict, or None if it takes algebra."""
    try:
        right, reason = compare_answers(gold, list(answers), question)
    except NeedsAlgebra:
        return None
    return Verdict(right, _shown(answers), reason)


def _by_check(check: str, answers: Sequence[str]) -> Verdict:
    """Right if each of the answers is."""
    kind, needed = read(check)
    for answer in answers:
        right, reason = CHECKS[kind](answer, needed)
        if not right:
            break
    return Verdict(right, _shown(answers), reason)


_known: dict[tuple, Verdict] = {}  # what the algebra decided


def _by_algebra(triples: list[tuple], timeout: float) -> list[Verdict]:
    requests = [{"gold": gold, "answers": answers, "question": question} for gold, answers, question in triples]
    verdicts = []
    for triple, reply in zip(triples, pool.POOL.ask_all(requests, timeout), strict=True):
        answer = _shown(triple[1])
        if reply is None or "late" in reply:
            # Not remembered: a busy machine may have been the cause.
            verdicts.append(Verdict(False, answer, f"no verdict within {timeout:g} s", timed_out=True))
            continue
        verdicts.append(Verdict(reply["right"], answer, reply["reason"]))
        if len(_known) >= _CACHE_SIZE:
            _known.clear()
        _known[triple] = verdicts[-1]
    return verdicts


def _shown(answers: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(answers))
