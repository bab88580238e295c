"""The reward that a trained model gives: to whole completions, or with `steps` to each of their
steps."""

from typing import Any

from rewards.completion import Messages, content, question


def learned(
    completions: list[str | Messages],
    prompts: list[str | Messages],
    *,
    model: Any,
    revision: str | None = None,
    separator: str = "\n",
    steps_before: list[list[str]] | None = None,
    **columns: object,
) -> list[float | None]:
    """What a reward model says of each completion: one number, higher for a better one, with no
    bounds. Of a step it says how probable it is that the step is right, 0.0 to 1.0. None where a
    text is longer than the model can read.

    A recipe names the `model` and its `revision`; in a run the loaded one stands in its place, a
    `RewardModel` of training/reward_model.py. `separator` is the text after each step at whose last
    token a process reward model judges it. `steps_before` holds the texts of a completion's steps
    before this one, whose rows stand together and in order.
    """
    if not model.of_steps:
        return model.scores(
            [
                _turns(p, "user") + _turns(c, "assistant")
                for p, c in zip(prompts, completions, strict=True)
            ]
        )
    before = steps_before or [[] for _ in completions]
    steps = [[*earlier, content(each)] for earlier, each in zip(before, completions, strict=True)]
    # All steps of a completion are judged in one pass, over the row of its last.
    last = [
        i for i, each in enumerate(steps) if i + 1 == len(steps) or len(steps[i + 1]) <= len(each)
    ]
    judged = model.step_scores(
        [question(prompts[i]) for i in last], [steps[i] for i in last], separator
    )
    return [score for scores in judged for score in scores]


def _turns(text: str | Messages, role: str) -> Messages:
    return [{"role": role, "content": text}] if isinstance(text, str) else list(text)
