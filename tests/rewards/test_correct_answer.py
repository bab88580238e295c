"""`correct_answer` with TRL's reward signature."""

import sys

import pytest

from rewards import correct_answer
from tests.made_runs import chat
from tests.support import ROOT
from tests.tables import cases
from tests.waits import capture

GSM8K = "She sells 16 - 3 - 4 = <<16-3-4=9>>9 eggs.\nShe makes 9 * 2 = $<<9*2=18>>18.\n#### 18"

MATH = r"The sum is $\frac{1}{4}+\frac{1}{2}=\boxed{\frac{3}{4}}$."


def test_one_score_a_completion_whatever_form_the_gold_has():
    completions = [r"\boxed{18}", "<think>…</think><answer>0.75</answer>"]
    completions += [r"\boxed{7}", r"\boxed{7}", "no idea"]
    paid = correct_answer(completions, [GSM8K, MATH, r"\boxed{7}", "", "7"])
    assert paid == [1.0, 1.0, 1.0, None, 0.0]


def test_what_a_tool_returns_is_not_the_models_answer():
    called = chat("assistant", None) | {"tool_calls": [{"function": {"name": "python"}}]}
    returned = {"role": "tool", "name": "python", "content": r"\boxed{18}"}
    turns = [called, returned, chat("assistant", r"So it is \boxed{18}.")]
    assert correct_answer([turns[:2], turns], [GSM8K, GSM8K]) == [0.0, 1.0]


def test_a_question_made_of_parts_is_not_read():
    prompt = [{"role": "user", "content": [{"type": "text", "text": "Simplify 6/8."}]}]
    assert correct_answer([r"\boxed{6/8}"], ["3/4"], [prompt]) == [1.0]


def test_everything_that_trl_passes():
    logged = {}
    texts = [r"\boxed{42}", r"\boxed{17+25}", None]
    columns = {"solution": ["42"] * 3, "level": ["1"] * 3, "completion_ids": [[1, 2], [3], []]}
    scores = correct_answer(
        prompts=[[chat("system", "Reason."), chat("user", "What is 17+25?")]] * 3,
        completions=[[chat("assistant", text)] for text in texts],
        trainer_state=object(),
        log_extra=lambda column, values: None,
        log_metric=lambda name, value: logged.update({name: value}),
        **columns,
    )
    assert scores == [1.0, 0.0, 0.0]
    assert logged == {"verifier/timeouts": 0.0}


def test_training_and_evaluation_have_one_tolerance():
    from evaluation.completions import judged

    golds = ["313.9 m", "60 J", "7"]
    completions = [r"\boxed{314 \text{ m}}", r"\boxed{0.0601\ \text{kJ}}", r"\boxed{7.2}"]
    rows = [{"problem": "How much?", "solution": gold} for gold in golds]
    for tolerance, paid in ((0.0, [0.0, 0.0, 0.0]), (0.01, [1.0, 1.0, 0.0]), (0.1, [1.0] * 3)):
        lines = judged(rows, completions, strict=False, tolerance=tolerance)
        assert [float(line["correct"]) for line in lines] == paid
        assert correct_answer(completions, golds, tolerance=tolerance) == paid


@cases(__file__, "the_question_comes_from_the_problem_column_or_the_prompt")
def test_the_question_comes_from_the_problem_column_or_the_prompt(prompts, columns):
    assert correct_answer([r"\boxed{6/8}"], ["3/4"], prompts, **columns) == [0.0]
    assert correct_answer([r"\boxed{6/8}"], ["3/4"]) == [1.0]


def test_the_last_user_message_is_the_question():
    prompt = [chat("user", "Simplify 6/8."), chat("assistant", "3/4")]
    prompt.append(chat("user", "And what is three quarters as any fraction?"))
    assert correct_answer([r"\boxed{6/8}"], ["3/4"], [prompt]) == [1.0]


@cases(__file__, "strict_takes_only_the_answer_block")
def test_strict_takes_only_the_answer_block(completion, strict, contract):
    assert correct_answer([completion], ["5"], strict=True) == [strict]
    assert correct_answer([completion], ["5"]) == [contract]


def test_a_batch_with_one_length_too_few_is_an_error():
    with pytest.raises(ValueError):
        correct_answer([r"\boxed{1}", r"\boxed{2}"], ["1"])


def test_a_first_verdict_on_a_number_loads_nothing_heavy():
    heavy = "datasets httpx math_verify numpy py3langid sympy torch transformers trl"
    code = "import sys; from rewards.verifier import judge\n"
    code += "assert judge('<answer>0.5</answer>', '1/2').correct\n"
    code += f"print([module for module in {heavy!r}.split() if module in sys.modules])"
    done = capture([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert done.stdout == "[]\n"
