r"""The one judge of answers, behind the reward and the evaluation: right, wrong, or cannot judge.

The rule is written in docs/rewards.md. A response is first reduced to its answer (`extract`), which is compared with
the gold by spelling, exact number and structure (`equal`); only what is left goes to the algebra in a worker process
(`pool`).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from data.gold import gold_answer
from rewards.verifier import pool
from rewards.verifier.equal import NeedsAlgebra, compare_answers
from rewards.verifier.extract import extract

_CACHE_SIZE = 50_000  # pairs of gold and answer
_MAX_SHOWN = 2000  # characters of the answers of one response; more is no answer and would fill the caches


class Verdict(NamedTuple):
    """`right` is None where the answer cannot be judged: there is no gold, or none that can be read."""

    right: bool | None
    answer: str | None
    reason: str
    timed_out: bool = False


def is_correct(
    response: str, gold: str, *, question: str | None = None, strict: bool = False, timeout: float = 2.0
) -> Verdict:
    r"""Whether `response` gives the answer `gold`, in at most `timeout` seconds of judging; never raises for a text.

    `gold` is what a data set has: a bare answer, a worked solution with `\boxed{}` or with `####`. With the `question`,
    its copy, an option's text, a percent sign and "lowest terms" are judged as it asks. `strict` takes only an answer
    in a closed `<answer>` block.

    >>> is_correct(r"<think>1/2</think><answer>0.5</answer>", r"\frac{1}{2}").right
    True
    """
    return judge_all([response], [gold], [question], strict=strict, timeout=timeout)[0]


def judge_all(
    responses: Sequence[str],
    golds: Sequence[object],
    questions: Sequence[str | None],
    *,
    strict: bool = False,
    timeout: float = 2.0,
) -> list[Verdict]:
    """`is_correct` for each response; equal (gold, answer) pairs are judged once, and algebra runs in parallel."""
    verdicts: list[Verdict | None] = []
    waiting: dict[tuple, list[int]] = {}
    for response, gold, question in zip(responses, golds, questions, strict=True):
        expected, found = _gold(gold), extract(response, strict)
        if expected is None:
            verdicts.append(
                Verdict(None, "; ".join(found.answers)[:_MAX_SHOWN] or None, "no gold answer to compare with")
            )
        elif not found.answers:
            verdicts.append(Verdict(False, None, found.reason))
        elif sum(map(len, found.answers)) > _MAX_SHOWN:
            verdicts.append(Verdict(False, found.answers[0][:_MAX_SHOWN], "too long for an answer"))
        else:
            pair = (expected, tuple(found.answers), question)
            decided = _known.get(pair) or _cheaply(*pair)
            verdicts.append(decided)
            if decided is None:
                waiting.setdefault(pair, []).append(len(verdicts) - 1)
    for pair, verdict in zip(waiting, _by_algebra(list(waiting), timeout), strict=True):
        for n in waiting[pair]:
            verdicts[n] = verdict
    return verdicts


_known: dict[tuple, Verdict] = {}


@lru_cache(maxsize=_CACHE_SIZE)
def _gold(gold: object) -> str | None:
    return gold_answer(gold)


@lru_cache(maxsize=_CACHE_SIZE)
def _cheaply(gold: str, answers: tuple[str, ...], question: str | None) -> Verdict | None:
    try:
        right, reason = compare_answers(gold, list(answers), question)
    except NeedsAlgebra:
        return None
    return Verdict(right, "; ".join(dict.fromkeys(answers)), reason)


def _by_algebra(pairs: list[tuple], timeout: float) -> list[Verdict]:
    requests = [{"gold": gold, "answers": answers, "question": question} for gold, answers, question in pairs]
    verdicts = []
    for pair, reply in zip(pairs, pool.POOL.ask_all(requests, timeout), strict=True):
        answer = "; ".join(dict.fromkeys(pair[1]))
        if reply is None or "late" in reply:
            # Not remembered: a busy machine may have been the cause.
            verdicts.append(Verdict(False, answer, f"no verdict within {timeout:g} s", True))
            continue
        verdicts.append(Verdict(reply["right"], answer, reply["reason"]))
        if len(_known) >= _CACHE_SIZE:
            _known.clear()
        _known[pair] = verdicts[-1]
    return verdicts
