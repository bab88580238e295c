"""Answers made around a right value of the question's own words and the verifier's lists: a denial,
a doubt, a choice, a bound or a comparison is never paid, in no place and in neither reading."""

import random
import re

import pytest

from rewards.verifier import judge_all
from rewards.verifier.question import NEVER, words_of
from rewards.verifier.units import CHANGES
from tests.tables import rows

NUMBER = 400  # answers to each question
QUESTIONS = {row["question"]: row["value"] for row in rows(__file__, "questions")}
EFFECTS = ("a denial", "a doubt", "a rounding", "a bound", "another answer")
# These join or announce: "It was 12", "then 12".
SPARED = frozenset(
    re.findall(
        r"\w+", "was then at up by after before as so also plus and from to give expected estimate"
    )
)
WORDS = " ".join(CHANGES[effect] for effect in EFFECTS)
DOUBTS = sorted((NEVER | set(WORDS.split())) - SPARED)
FRAMES, PLACES = rows(__file__, "frames"), rows(__file__, "places")


def _answers(question: str, value: str) -> list[str]:
    rng = random.Random(question)
    words = words_of(question)
    answers = []
    for _ in range(NUMBER):
        first = rng.randrange(len(words))
        answers.append(
            rng.choice(FRAMES).format(
                doubt=rng.choice(DOUBTS),
                value=value,
                other=int(value) + rng.randint(1, 9),
                words=" ".join(words[first : first + rng.randint(1, 4)]),
            )
        )
    return [rng.choice(PLACES).format(answer) for answer in answers]


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_doubts_a_correct_value_is_never_paid(question):
    value = QUESTIONS[question]
    completions = _answers(question, value)
    columns = completions, [value] * NUMBER, [question] * NUMBER
    paid = []
    for completion, verdict in zip(completions, judge_all(*columns), strict=True):
        if verdict.correct:
            paid.append((completion, verdict.reason))
    assert paid == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_bare_value_is_paid(question):
    value = QUESTIONS[question]
    [verdict] = judge_all([PLACES[0].format(value)], [value], [question])
    assert verdict.correct
