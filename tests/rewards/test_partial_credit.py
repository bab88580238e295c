import pytest

from rewards import partial_credit
from tests.support import far_below_quadratic


@pytest.mark.parametrize(
    ("answer", "gold", "credit"),
    [
        ("2, 3", "2,3", 1.0),
        ("3 and 2", "2, 3", 1.0),
        ("x = 2 or x = 3", "2,3", 1.0),
        ("\\boxed{2, 3}", "\\boxed{2,3}", 1.0),
        ("$\\{3, 2\\}$", "\\{2,3\\}", 1.0),
        ("2", "2,3", 0.5),
        ("3", "1, 2, 3, 4", 0.25),
        ("0.5", "\\frac{1}{2}, 3", 0.5),
        ("\\frac12", "1/2, 3", 0.0),
        ("72", "so 48 + 24 = <<48+24=72>>72\n#### 72", 1.0),
        ("1,024", "#### 1,024", 1.0),
        # One wrong value costs everything, so candidates cannot be listed.
        ("1, 2, 3", "2,3", 0.0),
        ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10", "2,3", 0.0),
        ("2, 2, 2", "2,3", 0.5),
        ("4", "2,3", 0.0),
        # Close is not right.
        ("71", "72", 0.0),
        ("-72", "72", 0.0),
        ("7200", "72", 0.0),
        # In brackets there is an order.
        ("(2, 3)", "(2,3)", 1.0),
        ("(3, 2)", "(2,3)", 0.0),
        ("2", "(2,3)", 0.0),
        ("[1, 2", "[1,2)", 0.0),
        # Nothing said, or several things.
        ("", "2,3", 0.0),
        (",,,", "2,3", 0.0),
        ("\\boxed{2} \\boxed{3}", "2,3", 0.0),
        ("1/0", "0", 0.0),
        ("9" * 100_000, "9", 0.0),
        ("1e999999999", "9", 0.0),
        ("2," * 50_000, "2,3", 0.5),
    ],
)
def test_credit(answer, gold, credit):
    with far_below_quadratic():
        assert partial_credit([f"<think>a</think><answer>{answer}</answer>"], solution=[gold]) == [
            credit
        ]


@pytest.mark.parametrize(
    ("text", "credit"),
    [
        ("So \\boxed{2}", 0.5),
        ("<think>\\boxed{2}</think>So \\boxed{3, 2}", 1.0),
        ("<think>\\boxed{2}</think>", 0.0),
        ("<think>\\boxed{2}", 0.0),
        ("2", 0.0),
        ("<answer>2</answer> or <answer>4</answer>", 0.0),
        ("<answer>2</answer> no, 4", 0.0),
        ("<answer>" * 10_000, 0.0),
    ],
)
def test_where_the_answer_stands(text, credit):
    assert partial_credit([[{"role": "assistant", "content": text}]], solution=["2,3"]) == [credit]


def test_no_gold_is_not_judged():
    assert (
        partial_credit(["<answer>2</answer>"] * 3, solution=["", None, "\\boxed{}"]) == [None] * 3
    )
