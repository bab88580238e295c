r"""The verifier: does a completion have the gold answer?

    judge("<think>…</think><answer>0.5</answer>", r"\frac{1}{2}").correct  # True

Training and evaluation both use it, so they cannot disagree. No text of a completion makes it raise
or hang. It follows the rule of docs/verifier.md; tests/rewards/verifier/cases.tsv and
second_mile.tsv have thousands of judged answers.

`thoughts` leaves out what a model thinks, and `extract` reduces the rest to its answer: by the
contract, or by the `lenient` reading to its last number. `equal` compares it with the `gold`: by
spelling (`notation`, `wholes`), by its typed `value` (`scalars`, `numerals`, `units`), and by the
rule for its type in the table of `compare` (`single_values`, `relations`); `options` and
`objections` hold what the question decides, and by `accounting` every word beside a value has its
reason. Only the pairs that this does not decide go to the `algebra`, in a worker process under a
time limit (`pool`). The folder `tables` holds the words. All of it is a package of its own,
installed as `grpo_verifier`: it imports nothing else of the project, and itself by relative imports
alone.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from . import pool
from .equal import NeedsAlgebra, compare_answers, kind_of_gold
from .extract import CONTRACT, LENIENT, READINGS, STRICT, Verdict, extract
from .gold import gold_answer, why_unearnable, worked_solution
from .thoughts import last_turn
from .tolerance import brought_to

__all__ = ["CONTRACT", "LENIENT", "STRICT", "Verdict", "gold_answer", "judge", "judge_all"]
__all__ += ["kind_of_gold", "last_turn", "prepare", "why_unearnable"]
__all__ += ["worked_solution"]

_CACHE_SIZE = 50_000  # pairs of gold and answer
_NUMBER = re.compile(r"-?[\d.,]+")
_gold_answer = lru_cache(maxsize=_CACHE_SIZE)(gold_answer)
# characters of all answers of a completion; more is no answer and would fill the caches
_MAX_ANSWER = 2000


def judge(
    completion: str,
    gold: object,
    *,
    question: str | None = None,
    reading: str = CONTRACT,
    tolerance: float = 0.0,
    timeout: float = 1.0,
) -> Verdict:
    r"""Judge whether `completion` has the answer `gold`, in at most `timeout` seconds of processor
    time.

    `gold` is as a data set has it: a bare answer, or a worked solution with `\boxed{}` or `####`.
    The `question` decides about a copy of it, an option's text, a percent sign and "lowest terms".
    `strict` accepts only an answer in a closed `<answer>` block. With a `tolerance` of 0.01 a
    number may differ from a gold number by a hundredth of it. No text of a completion raises.

    >>> judge(r"<think>1/2</think><answer>0.5</answer>", r"\frac{1}{2}").correct
    True
    """
    columns = [completion], [gold], [question]
    return judge_all(*columns, reading=reading, tolerance=tolerance, timeout=timeout)[0]


def judge_all(
    completions: Sequence[str],
    golds: Sequence[object],
    questions: Sequence[str | None],
    *,
    reading: str | Sequence[str] = CONTRACT,
    tolerance: float = 0.0,
    timeout: float = 1.0,
) -> list[Verdict]:
    """Judge every completion: equal triples of gold, answers and question are judged once, and in
    parallel if they need algebra.

    `reading` is one value for all completions, or a value for every completion.
    """
    readings = [reading] * len(completions) if isinstance(reading, str) else reading
    _require_known(readings, tolerance)
    verdicts: list[Verdict | None] = []
    undecided: dict[tuple, list[int]] = {}
    as_written: dict[int, str] = {}  # answers whose numbers were brought to the gold's
    rows = zip(completions, golds, questions, readings, strict=True)
    for completion, gold, question, reading in rows:
        gold_text = _gold_answer(gold)
        answers, reason = extract(completion, reading, question, gold_text)
        if gold_text is None:
            answer = "; ".join(answers)[:_MAX_ANSWER] or None
            verdicts.append(Verdict(None, answer, "no gold answer to compare with"))
        elif not answers:
            verdicts.append(Verdict(False, None, reason))
        elif sum(map(len, answers)) > _MAX_ANSWER:
            verdicts.append(Verdict(False, answers[0][:_MAX_ANSWER], "too long for an answer"))
        else:
            case = (gold_text, tuple(answers), question)
            if tolerance:
                near = [brought_to(gold_text, answer, tolerance) for answer in answers]
                case = (gold_text, tuple(near), question)
                as_written[len(verdicts)] = _join(answers)
            verdict = _judge_without_algebra(*case)
            if verdict is None:
                verdict = _decided_by_algebra.get(case)
            if verdict is None:
                undecided.setdefault(case, []).append(len(verdicts))
            verdicts.append(verdict)
    judged = _judge_by_algebra(list(undecided), timeout)
    for numbers, verdict in zip(undecided.values(), judged, strict=True):
        for n in numbers:
            verdicts[n] = verdict
    for n, answer in as_written.items():
        verdicts[n] = replace(verdicts[n], answer=answer)
    return verdicts


def _require_known(readings: Sequence[str], tolerance: float):
    """Raise ValueError for a reading that does not exist, and for a tolerance that is no share."""
    if not set(READINGS).issuperset(readings):
        raise ValueError(f"a reading is one of {', '.join(READINGS)}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"a tolerance is a share of the gold, from 0 to below 1, not {tolerance}")


def prepare(golds: Sequence[object]) -> None:
    """Start the workers now, without waiting, if these golds are not all plain numbers.

    Importing the algebra takes seconds, and the first answer that needs it would wait for them. Few
    answers need it where the golds are numbers, and in many runs none.
    """
    if not all(_NUMBER.fullmatch(_gold_answer(gold) or "0") for gold in golds):
        pool.POOL.start()


@lru_cache(maxsize=_CACHE_SIZE)
def _judge_without_algebra(
    gold: str, answers: tuple[str, ...], question: str | None
) -> Verdict | None:
    """Return the verdict, or None if it needs algebra."""
    try:
        correct, reason = compare_answers(gold, list(answers), question)
    except NeedsAlgebra:
        return None
    return Verdict(correct, _join(answers), reason)


_decided_by_algebra: dict[tuple, Verdict] = {}


def _judge_by_algebra(cases: list[tuple], timeout: float) -> list[Verdict]:
    names = ("gold", "answers", "question")
    requests = [dict(zip(names, case, strict=True)) for case in cases]
    if len(_decided_by_algebra) >= _CACHE_SIZE:
        _decided_by_algebra.clear()
    verdicts = []
    for case, reply in zip(cases, pool.POOL.ask_all(requests, timeout), strict=True):
        answer = _join(case[1])
        if reply is None or "late" in reply:
            # Not remembered: a busy machine may have been the cause.
            late = f"no verdict within {timeout:g} s"
            verdicts.append(Verdict(False, answer, late, timed_out=True))
        else:
            verdicts.append(Verdict(reply["correct"], answer, reply["reason"]))
            _decided_by_algebra[case] = verdicts[-1]
    return verdicts


def _join(answers: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(answers))
