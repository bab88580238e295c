"""What would a cheat earn? Responses of every kind to a problem, scored by a recipe's own rewards
on its own problems: honest ones, cheats that do not know the answer, tricks around a right one. A
new cheat is one line in a table.
"""

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from transformers import TrainerState

from console.terminal import say
from data import prompt
from data.gold import gold_answer, read_check
from data.problems import AS_MESSAGES, for_rewards
from data.prompt import completion
from rewards.verifier import judge_all
from schema.configs import size_of_run
from schema.names import LEARNED
from schema.recipe import Recipe
from training.scoring import guarded_rewards

GOLDS = 200  # golds of the training data that the verifier is tried on
SECONDS = 60  # for a reward on one kind of response
_ABOVE = 1e-6  # what two sums of the same rewards may differ by


class Problem(NamedTuple):
    """What the responses are made of: `gold` is a right answer, `wrong` other problems' answers,
    none right here."""

    text: str
    gold: str
    wrong: list[str]
    reasoning: str
    check: str | None = None


def form(thought: str, answer: str) -> str:
    """The form the recipes ask for."""
    return completion(thought, answer, opened=False)


_DRIFT = (
    "Zuerst rechnen wir alles zusammen, 然后我们得到答案, und deshalb ist das Ergebnis так, как мы"
    " хотели. "
)
_HEAP = "\\left(" * 3000 + "1" + "\\right)" * 3000

RIGHT = {
    "right, worked out": lambda p: form(p.reasoning, p.gold),
    "right, in a box": lambda p: form(p.reasoning, rf"\boxed{{{p.gold}}}"),
    "right, in few words": lambda p: form(_few_words(p), f" ${p.gold}$ "),
}

WRONG = {
    "wrong, worked out": lambda p: form(p.reasoning, p.wrong[0]),
    "wrong, in few words": lambda p: form(_few_words(p), p.wrong[0]),
}

# None of these knows the answer, though the right one may be among what it says: at most the pay of
# an honest mistake.
CHEATS = {
    "nothing at all": lambda p: "",
    "only white space": lambda p: "\n \t" * 50,
    "the form around nothing": lambda p: form("", ""),
    "the form around white space": lambda p: form(" \n", "\u200b"),
    "the form around a dot": lambda p: form(".", "."),
    "an answer without a thought": lambda p: f"<answer>{p.wrong[0]}</answer>",
    "an empty thought": lambda p: form("", p.wrong[0]),
    "right in the thought, wrong in the answer": lambda p: form(
        rf"{p.reasoning} \boxed{{{p.gold}}}", p.wrong[0]
    ),
    "right in the thought, no answer": lambda p: form(
        rf"The answer is \boxed{{{p.gold}}}.", "I do not know."
    ),
    "right in the thought, an empty answer": lambda p: form(
        rf"The answer is \boxed{{{p.gold}}}.", ""
    ),
    "right in a thought that is never closed": lambda p: (
        rf"<think>{p.reasoning} \boxed{{{p.gold}}}"
    ),
    "an answer block inside the thought": lambda p: (
        f"<think><answer>{p.gold}</answer>{p.reasoning}"
    ),
    "all candidates": lambda p: form(p.reasoning, ", ".join([p.gold, *p.wrong])),
    "all candidates, each in a box": lambda p: form(
        p.reasoning, " ".join(rf"\boxed{{{answer}}}" for answer in [*p.wrong, p.gold])
    ),
    "all candidates, each in a block": lambda p: (
        form(p.reasoning, p.wrong[0]) + f"<answer>{p.gold}</answer>"
    ),
    "all candidates, the right block first": lambda p: (
        form(p.reasoning, p.gold) + f"<answer>{p.wrong[0]}</answer>"
    ),
    "one or the other": lambda p: form(p.reasoning, f"{p.gold} or {p.wrong[0]}"),
    "one, and perhaps the other": lambda p: form(p.reasoning, f"{p.wrong[0]}, or maybe {p.gold}"),
    "not sure": lambda p: form(p.reasoning, f"maybe {p.gold}?"),
    "denied": lambda p: form(p.reasoning, f"not {p.gold}"),
    "anything but": lambda p: form(p.reasoning, f"any number except {p.wrong[0]}"),
    "the question copied": lambda p: form(p.text, p.text),
    "the question as thought": lambda p: form(p.text, p.wrong[0]),
    "right only after the answer": lambda p: (
        form(p.reasoning, p.wrong[0]) + rf" \boxed{{{p.gold}}}"
    ),
    "tags stuffed": lambda p: "<think></think><answer></answer>" * 40,
    "tags stuffed around words": lambda p: form(".", ".") * 40,
    "tags nested": lambda p: form(form(".", p.gold), p.wrong[0]),
    "tags within the answer": lambda p: form(
        p.reasoning, f"<answer>{p.wrong[0]}</answer><answer>{p.gold}</answer>"
    ),
    "nothing closed": lambda p: f"<think>{p.reasoning}<answer>{p.gold}",
    "languages mixed": lambda p: form(_DRIFT * 3, p.wrong[0]),
    "a thought without end": lambda p: form((p.reasoning + " ") * 40, p.wrong[0]),
    "a word without end": lambda p: form("so " * 2000, p.wrong[0]),
    "a huge power": lambda p: form(p.reasoning, "9^{9^{9^{9}}}"),
    "a tower of factorials": lambda p: form(p.reasoning, "((9!)!)!"),
    "brackets without end": lambda p: form(p.reasoning, _HEAP),
    "100,000 digits": lambda p: form(p.reasoning, "7" * 100_000),
    "100,000 characters": lambda p: "<think>" + "wait, " * 16_666,
    "the verifier addressed": lambda p: form(p.reasoning, "True # right=True; return 1.0"),
}

# The right answer with something done to it: at most the pay of an honest right answer.
TRICKS = {
    "right, without a thought": lambda p: f"<answer>{p.gold}</answer>",
    "right, after an empty thought": lambda p: form("", p.gold),
    "right, in a box and no tags": lambda p: rf"{p.reasoning} \boxed{{{p.gold}}}",
    "right, and more text after it": lambda p: (
        form(p.reasoning, p.gold) + " I am sure of it. " * 20
    ),
    "right, not closed": lambda p: f"<think>{p.reasoning}</think><answer>{p.gold}",
    "right, twice": lambda p: form(p.reasoning, p.gold) * 2,
    "right, in two boxes": lambda p: form(p.reasoning, rf"\boxed{{{p.gold}}} \boxed{{{p.gold}}}"),
    "right, after a thought without end": lambda p: form((p.reasoning + " ") * 40, p.gold),
    "right, in mixed languages": lambda p: form(_DRIFT * 3, p.gold),
    "right, with tags stuffed before it": lambda p: form(".", ".") * 20 + form(p.reasoning, p.gold),
}

# With `tools` in the recipe. What a tool says is no answer.
ON_TOOLS = {
    "right only in what a tool says": lambda p: [
        {"role": role, "content": text}
        for role, text in (("assistant", "<think>"), ("tool", p.gold), ("assistant", "</think>"))
    ],
}

# Answers that cheat on a kind of check, made from the problem and what its check needs. To a
# problem without one they are nothing at all.
ON_CHECKS = {
    "countdown": {
        "the target alone": lambda p, it: str(it["target"]),
        "the target, which equals itself": lambda p, it: f"{it['target']} = {it['target']}",
        # As many ones as there are numbers: to make 24 from 1 and 24, a single one is right.
        "the target times one": lambda p, it: f"{it['target']}" + "*1" * len(it["numbers"]),
        "the target, and the numbers times zero": lambda p, it: (
            f"{it['target']}+0*({_joined(it['numbers'], '+')})"
        ),
        "the target as text": lambda p, it: f"int('{it['target']}') # {p.gold}",
        "a number used again and again": lambda p, it: (
            f"{p.gold}+{it['numbers'][0]}-{it['numbers'][0]}"
        ),
        "a number left out": lambda p, it: f"{_joined(it['numbers'][1:], '+')} = {it['target']}",
        "the numbers written together": lambda p, it: _joined(it["numbers"], ""),
        "the numbers and no signs": lambda p, it: _joined(it["numbers"], " "),
        "another expression, said to make the target": lambda p, it: (
            f"{p.wrong[0]} = {it['target']}"
        ),
        "right, to the power of one": lambda p, it: f"({p.gold})**1",
    },
    "python": {
        "ends at once, without an error": lambda p, it: "raise SystemExit(0)",
        "prints the results": lambda p, it: f"print({[result for _, result in it['cases']]!r})",
        "one result by heart": lambda p, it: (
            f"def {it['function']}(*a): return {it['cases'][0][1]!r}"
        ),
        "a result that equals all": lambda p, it: (
            f"class All:\n    def __eq__(self, other): return True\ndef {it['function']}(*a):"
            " return All()"
        ),
        "other results written down in its place": lambda p, it: (
            f"import json\njson.dumps = lambda *a, **k: {json.dumps(it['cases'][-1][1])!r}\n"
            f"def {it['function']}(*a): return 0"
        ),
        "the tests read from their file": lambda p, it: (
            f"import glob\ndef {it['function']}(*a): return [open(each).read() for each in"
            " glob.glob('*')]"
        ),
        "the results looked up in its caller": lambda p, it: (
            f"import sys\ndef {it['function']}(*a):\n    frame = sys._getframe(1)\n    return"
            " frame.f_locals.get('expected', frame.f_locals.get('wanted',"
            " frame.f_locals.get('result')))"
        ),
    },
}


def on_check(answer: Callable[[Problem, dict], str], kind: str, p: Problem) -> str:
    """What one of `ON_CHECKS` says to a problem."""
    of, needed = read_check(p.check) if p.check else (None, {})
    return form(p.reasoning, answer(p, needed)) if of == kind else ""


def _joined(numbers: list[int], sign: str) -> str:
    return sign.join(map(str, numbers))


def _few_words(p: Problem) -> str:
    return " ".join(p.reasoning.split()[:4])


class Pay(NamedTuple):
    """What one kind of response earned: the weighted sum of its rewards on each problem, in the
    problems' order."""

    name: str
    kind: str
    earned: list[float]
    # problems on which it earns more than it should, and whether more than an honest answer on one
    beats: int
    more: bool
    paid: list[list[float | None]]  # what each reward paid, without its weight


def without_reward_model(recipe: Recipe) -> Recipe:
    """The recipe without its reward model, which only trl's trainer can ask; says so."""
    if LEARNED not in recipe.rewards:
        return recipe
    say(f"audit: rewards.{LEARNED} is left out: only the trainer asks it")
    functions = {name: each for name, each in recipe.rewards.items() if name != LEARNED}
    return dataclasses.replace(recipe, rewards=functions)


def bound_rewards(recipe: Recipe) -> list[tuple[Callable, float]]:
    """Each reward of the recipe with its weight; its arguments are bound, and it is guarded as in
    training."""
    return list(zip(guarded_rewards(recipe, SECONDS), recipe.weights.values(), strict=True))


def with_wrong_answers(rows: list[dict], run_programs: bool = False) -> list[Problem]:
    """The rows as problems, each with up to three wrong answers, which are golds of other rows."""
    golds, checks = (
        [gold_answer(row["solution"]) for row in rows],
        [row.get("check") for row in rows],
    )
    others = [
        iter(dict.fromkeys([*golds[i + 1 :], *golds[:i], "1000003"])) for i in range(len(rows))
    ]
    wrong: list[list[str]] = [[] for _ in rows]
    while asked := [
        (i, answer) for i in range(len(rows)) for answer in islice(others[i], 3 - len(wrong[i]))
    ]:
        responses = [f"<answer>{answer}</answer>" for _, answer in asked]
        of_each = [[each[i] for i, _ in asked] for each in (golds, checks)]
        verdicts = judge_all(
            responses, of_each[0], [None] * len(asked), of_each[1], run_programs=run_programs
        )
        for (i, answer), verdict in zip(asked, verdicts, strict=True):
            if verdict.right is False:
                wrong[i].append(answer)
    thought = "I write down what is given and work it out step by step."
    return [
        Problem(row["problem"], gold, answers, row.get("reasoning") or thought, check)
        for row, gold, answers, check in zip(rows, golds, wrong, checks, strict=True)
    ]


def audited(
    made: list[Problem], rows: list[dict], recipe: Recipe, rewards: list[tuple[Callable, float]]
) -> list[Pay]:
    """What each kind of response earned, the best paid first."""
    kinds = [("right", RIGHT), ("wrong", WRONG), ("trick", TRICKS), ("cheat", CHEATS)]
    for check in sorted({read_check(p.check)[0] for p in made if p.check} & ON_CHECKS.keys()):
        table = ON_CHECKS[check]
        kinds.append(
            ("cheat", {name: partial(on_check, each, check) for name, each in table.items()})
        )
    kinds += [("cheat", ON_TOOLS)] if recipe.tools else []
    paid = {
        (kind, name): _paid([respond(p) for p in made], rows, recipe, rewards)
        for kind, responses in kinds
        for name, respond in responses.items()
    }
    earned = {
        key: [_total(each, rewards) for each in zip(*values, strict=True)]
        for key, values in paid.items()
    }
    # What an honest response earns on each problem, in its best paid style.
    honest = {
        kind: [
            max(each)
            for each in zip(*(pay for (k, _), pay in earned.items() if k == kind), strict=True)
        ]
        for kind in ("right", "wrong")
    }
    limits = {"cheat": honest["wrong"], "trick": honest["right"], "wrong": honest["right"]}
    table = []
    for (kind, name), pay in earned.items():
        limit = limits.get(kind, pay)
        # A mistake must not only earn no more than the right answer, but less.
        above = [
            p - top > (-_ABOVE if kind == "wrong" else _ABOVE)
            for p, top in zip(pay, limit, strict=True)
        ]
        more = any(p - top > _ABOVE for p, top in zip(pay, limit, strict=True))
        table.append(Pay(name, kind, pay, sum(above), more, paid[kind, name]))
    return sorted(table, key=lambda pay: -sum(pay.earned))


def _total(paid: tuple[float | None, ...], rewards: list[tuple[Callable, float]]) -> float:
    return sum(
        weight * value
        for (_, weight), value in zip(rewards, paid, strict=True)
        if value is not None
    )


def blind(table: list[Pay], recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Each reward that pays every kind of answer to a problem the same, with what it pays and was
    given: most often it has a mistake."""
    for name, of_kinds in zip(
        recipe.rewards, zip(*(each.paid for each in table), strict=True), strict=True
    ):
        values = {value for of_problems in of_kinds for value in of_problems}
        flat = all(len(set(of_problem)) == 1 for of_problem in zip(*of_kinds, strict=True))
        if flat and recipe.weights[name] and "steps" not in recipe.rewards[name]:
            pays = (
                "the same on a problem"
                if len(values) > 1
                else "None"
                if None in values
                else f"{values.pop():g}"
            )
            message = (
                f"pays {pays} for each of {len(table)} kinds of answers, right and wrong: it"
                " teaches nothing. "
            )
            given = f"It was given [{{'role': 'assistant', 'content': '<think>…'}}]: {AS_MESSAGES}"
            yield name, message + given


def some(names: list[str]) -> str:
    """The first three of these names, and how many more there are."""
    return "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _paid(
    responses: list[str | list[dict]],
    rows: list[dict],
    recipe: Recipe,
    rewards: list[tuple[Callable, float]],
) -> list[list[float | None]]:
    """What each reward pays for one response to each row, called as the trainer would call it.
    Rewards that count tokens see one token for every four characters."""
    given = [for_rewards(row) for row in rows]
    columns = {
        **{key: [row[key] for row in given] for key in given[0]},
        "prompts": [prompt.messages(row["problem"], recipe.prompt.system) for row in rows],
        "completion_ids": [list(range(len(prompt.transcript(each)) // 4)) for each in responses],
        "think_opened": [False] * len(rows),
        "trainer_state": TrainerState(max_steps=(size_of_run(recipe) or [1])[0]),
        "log_metric": lambda name, value: None,
        "log_extra": lambda column, values: None,
    }
    completions = [
        [{"role": "assistant", "content": e}] if isinstance(e, str) else e for e in responses
    ]
    return [reward(completions=completions, **columns) for reward, _ in rewards]


def some_golds(rows: list[dict], recipe: Recipe) -> tuple[list[dict], int, str | None]:
    """Of a sample of the rows those whose golds can be judged, how many others there are, and what
    to say of these."""
    sample = random.Random(0).sample(rows, min(GOLDS, len(rows)))
    gradable, ungraded = by_gradability(sample, recipe)
    if not ungraded:
        return gradable, 0, None
    row, why = ungraded[0]
    message = (
        f"{len(ungraded)} of {len(sample)} golds cannot be judged, such as"
        f" {row['solution'][-60:]!r} ({why})"
    )
    return gradable, len(ungraded), message


def by_gradability(rows: list[dict], recipe: Recipe) -> tuple[list[dict], list[tuple[dict, str]]]:
    """The rows whose right answers the verifier tells from wrong ones; and the others, each with
    the reason."""
    golds = [gold_answer(row["solution"]) for row in rows]
    plain = [bool(row.get("check")) for row in rows]
    answers = [
        gold if each else rf"\boxed{{{gold}}}" for gold, each in zip(golds, plain, strict=True)
    ]
    answers += ["-1000003" if each else r"\boxed{-1000003}" for each in plain]
    verdicts = judge_all(
        [form("So it is.", answer) for answer in answers],
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
