"""The reward for a correct final answer."""

from collections.abc import Callable, Sequence

from rewards.completion import Messages


def correct_answer(
    completions: list[str | Messages],
    solution: list[str],
    prompts: list[str | Messages] | None = None,
    *,
    strict: bool = False,
    tolerance: float = 0.0,
    log_metric: Callable[[str, float], None] | None = None,
    **columns: list,
) -> list[float | None]:
    """Return 1.0 for a correct answer, 0.0 for a false one, None (which TRL skips) without a gold.

    `solution` has the golds as in the data set; `rewards/verifier/hosts.py` says the rest.
    """
    from rewards.verifier import hosts

    options = {"strict": strict, "tolerance": tolerance, "log_metric": log_metric}
    return hosts.correct_answer(completions, solution, prompts, **options, **columns)


def _prepare(golds: Sequence[object]) -> None:
    from rewards.verifier import prepare

    prepare(golds)


correct_answer.prepare = _prepare
