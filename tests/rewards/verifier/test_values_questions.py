"""What questions ask for: each request of the table is made by its examples and not by those it spares."""

import pytest

from rewards.verifier import judge, question
from rewards.verifier.question import Request

REQUESTS = [value for value in vars(question).values() if isinstance(value, Request)]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.name)
def test_a_request_is_found_in_its_examples_and_nowhere_else(request_):
    assert request_.matches and all(map(request_.of, request_.matches))
    assert request_.spares and not any(map(request_.of, request_.spares))


def test_no_two_requests_have_one_name():
    assert REQUESTS and len({request.name for request in REQUESTS}) == len(REQUESTS)


@pytest.mark.parametrize(
    ("asked", "gold", "answer", "reason"),
    [
        ("Write 7/2 as a decimal.", "3.5", "7/2", "copied from the question"),
        ("Factor $x^2-1$ completely.", "(x-1)(x+1)", "x^2-1", "copied from the question"),
        ("Factor $x^2 - 1$. Explain.", "(x-1)(x+1)", "-1+x^2", "the question asks for a product"),
        ("Expand $x(x+1)$.", "x^2+x", "(x+1)x", "the question asks for a sum"),
        (
            "Give it in interval notation.",
            "(0,5)",
            "0<x<5",
            "the question asks for interval notation",
        ),
        ("In lowest terms?", "3/4", "6/8", "the question asks for lowest terms"),
        ("How many minutes?", "120", "120 hours", "another unit than the question asks for"),
    ],
)
def test_what_the_question_has_against_an_answer(asked, gold, answer, reason):
    verdict = judge(rf"\boxed{{{answer}}}", gold, question=asked)
    assert (verdict.right, verdict.reason) == (False, reason)
