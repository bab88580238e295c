import pytest

from rewards import true_equations
from tests.support import far_below_quadratic


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("7+5=12, 4+8+1=13", 1.0),
        ("<think>7+5=12", 1.0),
        ("7+5=13", 0.0),
        ("7+5=12, 4+8+1=12", 0.0),
        ("12 - 5 = 7 and 7 + 1 = 9", 0.0),
        ("2+2=4=8/2", 1.0),
        ("2+2=4=9/2", 0.0),
        ("2+2=4\n4+1=6", 0.0),
        ("2+2=4. 4+1=6.", 0.0),
        ("(2+3)*4 = 20", 1.0),
        ("(2+3)*4 = 21", 0.0),
        ("so 3 - 5 = -2", 1.0),
        ("x = 3 + 4 = 8", 0.0),
        # As people and models write them.
        (r"2 \times 3 = 6", 1.0),
        ("2 × 3 − 1 = 5 ÷ 1", 1.0),
        ("$3 + $4 = $7", 1.0),
        ("<<48/2=24>>24", 1.0),
        ("<<48/2=23>>23", 0.0),
        ("1,200 + 300 = 1,500.", 1.0),
        ("2 + 3 = 5 apples", 1.0),
        # A decimal may be rounded, a fraction may not.
        ("10/3 = 3.33", 1.0),
        ("10/3 ≈ 3.3", 1.0),
        ("10/3 = 3.34", 0.0),
        ("10/3 = 3", 0.0),
        ("0.1 + 0.2 = 0.3", 1.0),
        # Nothing that numbers alone decide.
        ("no sums", None),
        ("1=1", None),
        ("3 + 4 =", None),
        ("5 apples + 3 apples = 8 apples", None),
        ("x + 2 = 5", None),
        ("x - 2 = 5", None),
        ("2x = 4 + 1", None),
        ("2 + 3 = 5x", None),
        ("2 + 3 = 5 + x", None),
        ("y^2 + 3 = 4", None),
        ("2^3 = 9", None),
        ("f(2) = 5", None),
        ("5! = 2 + 3", None),
        ("50 * 20% = 10", None),
        ("1/0 = 5", None),
        ("9**9**9**9 = 1 + 1", None),
        ("(" * 90 + "1+1" + ")" * 90 + " = 2", 1.0),
        ("(" * 99_000 + "1+1 = 2", None),
        ("7" * 100_000 + "+1 = 8", None),
    ],
)
def test_equations(text, reward):
    assert true_equations([text]) == [reward]


def test_a_conversation_is_read_too():
    assert true_equations([[{"role": "assistant", "content": "1+1=3"}]]) == [0.0]


@pytest.mark.parametrize(
    "text", ["7", "=", "1+", "(1+", " ", "1,000", "1+1=2\n", "$", "1 =", "\\("]
)
def test_it_takes_no_longer_than_the_text(text):
    with far_below_quadratic():
        true_equations([text * (100_000 // len(text))])
