"""Countdown: every expression that reaches the target is right, and nothing else is, whatever it
looks like."""

import json
import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations, product

import pytest

from data.made import countdown
from evaluation.answers import judged
from rewards import correct_answer
from rewards.verifier import CONTRACT, LENIENT, STRICT, gold, judge
from rewards.verifier.checks import CHECKS
from tests.tables import cases

NEEDED = {"numbers": [3, 3, 8, 8], "target": 24}
CHECK = json.dumps({"countdown": NEEDED})


@cases(
    __file__,
    "answers",
    ("(" * 200 + "24" + ")" * 200, False),
    ("(" * 5000 + "24" + ")" * 5000, False),
    ("-" * 490 + "8/(3-8/3)", True),
    ("-" * 5000 + "8/(3-8/3)", False),
    ("9" * 490, False),
    ("8/(3-8/3)" + " " * 3000, True),
    (r"\frac{" * 60 + "8" + "}{3}" * 60, False),
)
def test_an_answer_to_a_countdown(answer, right):
    for strict in (False, True):
        said = judge(
            f"<think>3 and 8</think>\n<answer>{answer}</answer>",
            "8/(3-8/3)",
            check=CHECK,
            reading=STRICT if strict else CONTRACT,
        )
        assert said.right is right, said


@cases(__file__, "responses")
def test_the_answer_stands_where_any_answer_does(response, lenient, contract, strict):
    expected = {LENIENT: lenient, CONTRACT: contract, STRICT: strict}
    for reading, right in expected.items():
        assert judge(response, "8/(3-8/3)", check=CHECK, reading=reading).right is right


def test_the_check_decides_and_not_the_gold():
    assert judge("<answer>24</answer>", "24").right is True
    assert judge("<answer>24</answer>", "24", check=CHECK).right is False
    assert judge("<answer>8/(3-8/3)</answer>", None).right is None
    assert judge("<answer>8/(3-8/3)</answer>", None, check=CHECK).right is True
    assert (
        judge(
            "<answer>24</answer>", "7", check='{"countdown": {"numbers": [24], "target": 24}}'
        ).right
        is True
    )


def test_every_reason_says_what_decided():
    reasons = {
        "8/(3-8/3)": "it is 24",
        "8+8+3+3": "it is 22",
        "8*3": "it uses 3, 8",
        "8/(3-8/3) = 25": "it says that it is 25",
        "8/((3-3)*8)": "it divides by zero",
        "8**3": "Pow is none of + - * /",
        "eight": "not an expression of numbers, + - * / and brackets",
        "8/(3": "it cannot be read",
        "1+" * 300 + "1": "too long for an expression",
    }
    for answer, reason in reasons.items():
        assert judge(f"<answer>{answer}</answer>", "", check=CHECK).reason == reason


def _all_expressions(numbers: tuple[int, ...]):
    """(text, value) of every expression of three numbers with all its brackets; None where it
    divides by zero."""
    for a, b, c in permutations(numbers):
        for first, second in product("+-*/", repeat=2):
            for text in (f"({a}{first}{b}){second}{c}", f"{a}{first}({b}{second}{c})"):
                try:
                    exact = text.translate(
                        {ord(digit): f"Fraction({digit})" for digit in "123456789"}
                    )
                    yield text, eval(exact, {"Fraction": Fraction})
                except ZeroDivisionError:
                    yield text, None


def test_against_brute_force():
    drawn, counts = random.Random(0), Counter()
    for _ in range(12):
        numbers = tuple(drawn.choices(range(1, 10), k=3))
        made = list(_all_expressions(numbers))
        target = drawn.choice(
            [int(v) for _, v in made if v is not None and v.denominator == 1 and v >= 0]
        )
        of = json.dumps({"countdown": {"numbers": numbers, "target": target}})
        for text, value in made:
            right = judge(f"<answer>{text}</answer>", "", check=of).right
            assert right is (value == target), (text, value, target)
            counts[right] += 1
    assert counts[True] > 50 and counts[False] > 1000


def test_random_text_never_raises_and_is_right_only_with_the_numbers():
    drawn = random.Random(1)
    words = ["8", "3", "24", "\\frac{", *"+-*/()= {}^._\\$\n"]
    for _ in range(3000):
        text = "".join(drawn.choices(words, k=drawn.randint(0, 40)))
        said = judge(f"<answer>{text}</answer>", "", check=CHECK)
        numbers = Counter(character for character in text if character in "38")
        assert said.right is False or numbers >= Counter("3388"), text


@cases(__file__, "checks", ("[" * 100_000, "it is nested too deeply"))
def test_a_check_that_is_none(of, message):
    with pytest.raises(ValueError, match=message):
        gold.read_check(of)


def test_every_kind_of_check_has_a_judge():
    assert gold.KINDS.keys() == CHECKS.keys()


def test_the_reward_and_the_evaluation_agree():
    rows = countdown("test", rows=500)
    for row, other in pairwise(rows):
        for answer in (row["solution"], other["solution"], f"{row['solution']} = 0"):
            text = f"<think>{row['reasoning']}</think>\n<answer>{answer}</answer>"
            paid = correct_answer(
                [text], [row["solution"]], problem=[row["problem"]], check=[row["check"]]
            )
            assert paid == [float(judged([row], [text], strict=True)[0]["right"])]
            assert judged([row], [text], strict=False)[0]["lenient"] is (answer == row["solution"])


def test_rows_with_and_without_a_check_in_one_batch():
    texts = ["<answer>24</answer>", "<answer>24</answer>", "<answer>8/(3-8/3)</answer>"]
    assert correct_answer(texts, ["24"] * 3, problem=[""] * 3, check=[None, CHECK, CHECK]) == [
        1.0,
        0.0,
        1.0,
    ]
