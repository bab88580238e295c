"""What a reward model is asked: whole conversations, or the steps of each completion in one
pass."""

from types import SimpleNamespace

import pytest

from rewards import learned

USER = [{"role": "system", "content": "Think."}, {"role": "user", "content": "1+1?"}]


def test_a_conversation_is_the_prompt_and_the_completion():
    asked = []
    model = SimpleNamespace(of_steps=False, scores=lambda given: asked.extend(given) or [0.5, None])
    told = learned(
        completions=["2", [{"role": "assistant", "content": "3"}]],
        prompts=["1+1?", USER],
        model=model,
    )
    assert told == [0.5, None]
    assert asked == [
        [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}],
        [*USER, {"role": "assistant", "content": "3"}],
    ]


@pytest.mark.parametrize(
    ("completions", "before", "asked"),
    [
        (["a", "b", "c", "d"], [[], ["a"], ["a", "b"], []], [["a", "b", "c"], ["d"]]),
        (["a", "a", "b"], [[], [], ["a"]], [["a"], ["a", "b"]]),
        (["a", "b"], None, [["a"], ["b"]]),  # the audit has no steps
        ([], [], []),
    ],
)
def test_the_steps_of_a_completion_are_judged_together(completions, before, asked):
    def step_scores(questions, steps, separator):
        assert steps == asked and questions == ["1+1?"] * len(asked) and separator == "\n"
        return [[float(i) for i in range(len(each))] for each in steps]

    model = SimpleNamespace(of_steps=True, step_scores=step_scores)
    told = learned(
        completions=completions, prompts=[USER] * len(completions), model=model, steps_before=before
    )
    assert told == [float(len(each)) for each in before or [[]] * len(completions)]
