"""What would a cheat earn? Every response of `cheats.py`, scored by a recipe's own rewards on its own problems."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import NamedTuple

from data import prompt
from data.check import read
from data.gold import gold_answer
from evaluation import cheats
from rewards.verifier import judge_all
from schema.recipe import Recipe
from training.scoring import guarded_rewards

SECONDS = 60  # for a reward on one kind of response
_ABOVE = 1e-6  # what two sums of the same rewards may differ by


class Pay(NamedTuple):
    """What one kind of response earned: the weighted sum of its rewards on each problem, in the problems' order."""

    name: str
    kind: str
    earned: list[float]
    beats: int  # problems on which it earns more than it should


def bound_rewards(recipe: Recipe) -> list[tuple[Callable, float]]:
    """Each reward of the recipe with its weight; its arguments are bound, and it is guarded as in training."""
    return list(zip(guarded_rewards(recipe, SECONDS), recipe.weights.values(), strict=True))


def with_wrong_answers(rows: list[dict], run_programs: bool = False) -> list[cheats.Problem]:
    """The rows as problems, each with up to three wrong answers, which are golds of other rows."""
    golds, checks = [gold_answer(row["solution"]) for row in rows], [row.get("check") for row in rows]
    others = [iter(dict.fromkeys([*golds[i + 1 :], *golds[:i], "1000003"])) for i in range(len(rows))]
    wrong: list[list[str]] = [[] for _ in rows]
    while asked := [(i, answer) for i in range(len(rows)) for answer in islice(others[i], 3 - len(wrong[i]))]:
        responses = [f"<answer>{answer}</answer>" for _, answer in asked]
        of_each = [[each[i] for i, _ in asked] for each in (golds, checks)]
        verdicts = judge_all(responses, of_each[0], [None] * len(asked), of_each[1], run_programs=run_programs)
        for (i, answer), verdict in zip(asked, verdicts, strict=True):
            if verdict.right is False:
                wrong[i].append(answer)
    thought = "I write down what is given and work it out step by step."
    return [
        cheats.Problem(row["problem"], gold, answers, row.get("reasoning") or thought, check)
        for row, gold, answers, check in zip(rows, golds, wrong, checks, strict=True)
    ]


def audited(
    made: list[cheats.Problem], rows: list[dict], recipe: Recipe, rewards: list[tuple[Callable, float]]
) -> list[Pay]:
    """What each kind of response earned, the best paid first."""
    kinds = [("right", cheats.RIGHT), ("wrong", cheats.WRONG), ("trick", cheats.TRICKS), ("cheat", cheats.CHEATS)]
    for check in sorted({read(p.check)[0] for p in made if p.check} & cheats.ON_CHECKS.keys()):
        table = cheats.ON_CHECKS[check]
        kinds.append(("cheat", {name: partial(cheats.on_check, each, check) for name, each in table.items()}))
    earned = {
        (kind, name): _paid([respond(p) for p in made], rows, recipe, rewards)
        for kind, responses in kinds
        for name, respond in responses.items()
    }
    # What an honest response earns on each problem, in its best paid style.
    honest = {
        kind: [max(each) for each in zip(*(pay for (k, _), pay in earned.items() if k == kind), strict=True)]
        for kind in ("right", "wrong")
    }
    limits = {"cheat": honest["wrong"], "trick": honest["right"], "wrong": honest["right"]}
    table = []
    for (kind, name), pay in earned.items():
        limit = limits.get(kind, pay)
        # A mistake must not only earn no more than the right answer, but less.
        above = [p > top + _ABOVE or (kind == "wrong" and p > top - _ABOVE) for p, top in zip(pay, limit, strict=True)]
        table.append(Pay(name, kind, pay, sum(above)))
    return sorted(table, key=lambda pay: -sum(pay.earned))


def _paid(responses: list[str], rows: list[dict], recipe: Recipe, rewards: list[tuple[Callable, float]]) -> list[float]:
    """The weighted sum of the rewards for one response to each row, called as the trainer would call them. Rewards that
    count tokens see one token for every four characters."""
    columns = {
        **{key: [row.get(key) for row in rows] for key in rows[0] if key not in ("reasoning", "answer")},
        "prompts": [prompt.messages(row["problem"], recipe.prompt.system) for row in rows],
        "completion_ids": [list(range(len(text) // 4)) for text in responses],
        "think_opened": [False] * len(rows),
        "trainer_state": None,
        "log_metric": lambda name, value: None,
        "log_extra": lambda column, values: None,
    }
    completions = [[{"role": "assistant", "content": text}] for text in responses]
    total = [0.0] * len(rows)
    for reward, weight in rewards:
        for i, value in enumerate(reward(completions=completions, **columns)):
            total[i] += weight * value if value is not None else 0.0
    return total


def by_gradability(rows: list[dict], recipe: Recipe) -> tuple[list[dict], list[tuple[dict, str]]]:
    """The rows whose right answers the verifier tells from wrong ones; and the others, each with the reason."""
    golds = [gold_answer(row["solution"]) for row in rows]
    plain = [bool(row.get("check")) for row in rows]
    answers = [gold if each else rf"\boxed{{{gold}}}" for gold, each in zip(golds, plain, strict=True)]
    answers += ["-1000003" if each else r"\boxed{-1000003}" for each in plain]
    verdicts = judge_all(
        [cheats.form("So it is.", answer) for answer in answers],
        [row["solution"] for row in rows] * 2,
        [row["problem"] for row in rows] * 2,
        [row.get("check") for row in rows] * 2,
        strict=recipe.strict,
        run_programs=recipe.runs_programs,
    )
    gradable, ungraded = [], []
    for row, right, wrong in zip(rows, verdicts[: len(rows)], verdicts[len(rows) :], strict=True):
        if right.right is not True:
            ungraded.append((row, "the gold answer itself is judged wrong"))
        elif wrong.right is not False:
            ungraded.append((row, "cannot be told from a wrong answer"))
        else:
            gradable.append(row)
    return gradable, ungraded
