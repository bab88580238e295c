"""The verifier: is the final answer of a response the same as the gold answer?

    from rewards.verifier import judge

    judge("<think>…</think><answer>0.5</answer>", r"\\frac{1}{2}").right  # True

Training and evaluation both ask it, so they cannot disagree. It never raises for what a response says, and no response
can make it hang: algebra runs in worker processes under a time limit. The rule it follows is docs/rewards.md, with
thousands of judged answers in tests/rewards/verifier/cases.tsv.

A response passes through `extract` (with the tables of phrases in `phrases`, `sentences` and `surroundings`), then
through `equal`, which compares spelling, exact numbers and structure, and last, if that does not decide, through the
algebra behind `pool`. A problem that many answers solve has a check in place of a gold (`countdown`, `program`). The
package can stand alone: of the project it uses only data/gold.py and data/check.py.
"""

from rewards.verifier.judging import judge, judge_all, prepare
from rewards.verifier.verdict import Verdict

__all__ = ["Verdict", "judge", "judge_all", "prepare"]


def __getattr__(name: str):
    if name == "is_correct":
        raise ImportError("is_correct(…) is now judge(…), and whether the answer is right is its .right")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
