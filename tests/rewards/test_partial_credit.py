from rewards import partial_credit
from tests.support import far_below_quadratic
from tests.tables import cases


@cases(__file__, "credit", ("9" * 100_000, "9", 0.0), ("2," * 50_000, "2,3", 0.5))
def test_credit(answer, gold, credit):
    with far_below_quadratic():
        assert partial_credit([f"<think>a</think><answer>{answer}</answer>"], solution=[gold]) == [
            credit
        ]


@cases(__file__, "where_the_answer_stands", ("<answer>" * 10_000, 0.0))
def test_where_the_answer_stands(text, credit):
    assert partial_credit([[{"role": "assistant", "content": text}]], solution=["2,3"]) == [credit]


def test_no_gold_is_not_judged():
    assert (
        partial_credit(["<answer>2</answer>"] * 3, solution=["", None, "\\boxed{}"]) == [None] * 3
    )
