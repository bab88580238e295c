r"""The verifier: is the final answer of a response the same as the gold answer?

    from rewards.verifier import judge

    judge("<think>…</think><answer>0.5</answer>", r"\frac{1}{2}").right  # True

Training and evaluation both ask it, so they cannot disagree. It never raises for what a response
says, and no response can make it hang. The rule it follows is docs/rewards.md, with thousands of
judged answers in tests/rewards/verifier/cases.tsv and second_mile.tsv.

`extract` reduces a response to its answer by the tables in `phrases`, and `equal` compares that
with the gold: by spelling (`notation`; `wholes`, of all of an answer; `languages`), by its typed
`value` with its `units`, and by the rule for its type (`compare`; `arithmetic`, `clocks`). A wrong
answer has second `readings`, as its question says; a sentence has the one that is `told`. Only the
pairs that this does not decide go to the `algebra`, in a worker process under a time limit
(`pool`). A problem that many answers solve has a check in place of a gold (`checks`). The package
can stand alone: of the project it uses only data/gold.py.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from data.gold import RUNS, gold_answer, read_check
from rewards.verifier import pool
from rewards.verifier.checks import CHECKS
from rewards.verifier.equal import NeedsAlgebra, compare_answers
from rewards.verifier.extract import Verdict, extract
from rewards.verifier.readings import final_answers

__all__ = ["Verdict", "judge", "judge_all", "prepare"]

_CACHE_SIZE = 50_000  # pairs of gold and answer
_NUMBER = re.compile(r"-?[\d.,]+")
# characters of all answers of a response; more is no answer and would fill the caches
_MAX_SHOWN = 2000


def judge(
    response: str,
    gold: object,
    *,
    question: str | None = None,
    check: str | None = None,
    strict: bool = False,
    run_programs: bool = False,
    timeout: float = 1.0,
) -> Verdict:
    r"""Whether `response` gives the answer `gold`, in at most `timeout` seconds of processor time;
    never raises.

    `gold` is what a data set has: a bare answer, or a worked solution with `\boxed{}` or `####`.
    With the `question`, a copy of it, an option's text, a percent sign and "lowest terms" are
    judged as it asks. A `check` (data/gold.py) decides in place of the gold. `strict` takes only an
    answer in a closed `<answer>` block.

    Raises:
        ValueError: the check cannot be used, or it runs programs and `run_programs` does not allow
            that.
        NotHeld: this machine cannot hold a program.

    >>> judge(r"<think>1/2</think><answer>0.5</answer>", r"\frac{1}{2}").right
    True
    """
    return judge_all(
        [response],
        [gold],
        [question],
        [check],
        strict=strict,
        run_programs=run_programs,
        timeout=timeout,
    )[0]


def judge_all(
    responses: Sequence[str],
    golds: Sequence[object],
    questions: Sequence[str | None],
    checks: Sequence[str | None] | None = None,
    *,
    strict: bool | Sequence[bool] = False,
    run_programs: bool = False,
    timeout: float = 1.0,
) -> list[Verdict]:
    """`judge` for each response: those without a check together, and those of each kind of check.
    `strict` is one for all, or one for each."""
    stricts = [strict] * len(responses) if isinstance(strict, bool) else strict
    if checks is None or not any(checks):
        return _by_gold(responses, golds, questions, stricts, timeout)
    rows = list(zip(responses, golds, questions, stricts, checks, strict=True))
    places: dict[str | None, list[int]] = {}
    for n, (*_, check) in enumerate(rows):
        places.setdefault(read_check(check)[0] if check else None, []).append(n)
    verdicts: list[Verdict | None] = [None] * len(rows)
    for kind, of_kind in places.items():
        texts, *references, in_form, needed = zip(*(rows[n] for n in of_kind), strict=True)
        if kind is None:
            made = _by_gold(texts, *references, in_form, timeout)
        elif kind in RUNS and not run_programs:
            raise ValueError(
                f"a check of kind {kind} runs what the response says: allow it with run_programs"
            )
        else:
            made = CHECKS[kind](texts, [read_check(check)[1] for check in needed], in_form)
        for n, verdict in zip(of_kind, made, strict=True):
            verdicts[n] = verdict
    return verdicts


def _by_gold(
    responses: Sequence[str],
    golds: Sequence[object],
    questions: Sequence[str | None],
    stricts: Sequence[bool],
    timeout: float,
) -> list[Verdict]:
    """Verdicts by the golds: equal (gold, answer, question) triples are judged once, the algebra in
    parallel."""
    verdicts: list[Verdict | None] = []
    waiting: dict[tuple, list[int]] = {}
    for response, gold, question, strict in zip(responses, golds, questions, stricts, strict=True):
        expected, found = _gold(gold), extract(response, strict)
        if expected is None:
            answer = "; ".join(found.answers)[:_MAX_SHOWN] or None
            verdicts.append(Verdict(None, answer, "no gold answer to compare with"))
        elif not found.answers:
            verdicts.append(Verdict(False, None, found.reason))
        elif sum(map(len, found.answers)) > _MAX_SHOWN:
            verdicts.append(Verdict(False, found.answers[0][:_MAX_SHOWN], "too long for an answer"))
        else:
            answers = found.answers
            if len(answers) > 1:
                answers = final_answers(answers, found.leads, expected, question)
            triple = (expected, tuple(answers), question)
            if (decided := _cheaply(*triple)) is None and (decided := _known.get(triple)) is None:
                waiting.setdefault(triple, []).append(len(verdicts))
            verdicts.append(decided)
    for triple, verdict in zip(waiting, _by_algebra(list(waiting), timeout), strict=True):
        for n in waiting[triple]:
            verdicts[n] = verdict
    return verdicts


def prepare(golds: Sequence[object]) -> None:
    """Start the workers now, without waiting, if these golds are not all plain numbers: importing
    the algebra takes seconds, which the first answer to need it would wait for. With numbers few
    answers do, and many runs have none.
    """
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


_known: dict[tuple, Verdict] = {}  # what the algebra decided


def _by_algebra(triples: list[tuple], timeout: float) -> list[Verdict]:
    requests = [
        {"gold": gold, "answers": answers, "question": question}
        for gold, answers, question in triples
    ]
    verdicts = []
    for triple, reply in zip(triples, pool.POOL.ask_all(requests, timeout), strict=True):
        answer = _shown(triple[1])
        if reply is None or "late" in reply:
            # Not remembered: a busy machine may have been the cause.
            verdicts.append(
                Verdict(False, answer, f"no verdict within {timeout:g} s", timed_out=True)
            )
            continue
        verdicts.append(Verdict(reply["right"], answer, reply["reason"]))
        if len(_known) >= _CACHE_SIZE:
            _known.clear()
        _known[triple] = verdicts[-1]
    return verdicts


def _shown(answers: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(answers))
