from rewards import true_equations
from tests.tables import cases


@cases(__file__, "equations", ("(" * 99_000 + "1+1 = 2", None), ("7" * 100_000 + "+1 = 8", None))
def test_equations(text, reward):
    assert true_equations([text]) == [reward]
