import pytest

from rewards import true_equations
from tests.support import far_below_quadratic
from tests.tables import cases


@cases(__file__, "equations", ("(" * 99_000 + "1+1 = 2", None), ("7" * 100_000 + "+1 = 8", None))
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
