"""Answers made around a right value of the question's own words and the verifier's lists: a denial,
a doubt, a choice, a bound or a comparison is never paid, in no place and in neither reading."""

import random
import re

import pytest

from rewards.verifier import judge_all
from rewards.verifier.question import NEVER, words_of
from rewards.verifier.units import CHANGES

NUMBER = 400  # answers to each question
QUESTIONS = {
    "Tom has 3 red apples and buys 9 more. How many apples does he have now?": "12",
    "Anna had 30 stickers and gave some away. How many more stickers than Ben does she have?": "7",
    "Each of the 4 girls that were not able to join paid $5. How much did they pay in total?": "20",
    "How many of the 50 children, who may not be late, are at most 9 years old?": "18",
    "A train leaves at 3 and is not late. How many hours does it take, either way?": "5",
    "A rope is 20 feet long or more. What is its length in inches?": "240",
    "Find the number of primes between 10 and 30.": "6",
    r"What is the value of $x$ if $2x + 1$ is not less than $9$?": "4",
}
EFFECTS = ("a denial", "a doubt", "a rounding", "a bound", "another answer")
# These join or announce: "It was 12", "then 12".
SPARED = frozenset(
    re.findall(
        r"\w+", "was then at up by after before as so also plus and from to give expected estimate"
    )
)
WORDS = " ".join(CHANGES[effect] for effect in EFFECTS)
DOUBTS = sorted((NEVER | set(WORDS.split())) - SPARED)
FRAMES = (
    "{doubt} {value}",
    "It is {doubt} {value}.",
    "{words} {doubt} {value} {words}",
    "{words} is {doubt} {value}",
    "{doubt} {words} {value}",
    "{value}, {doubt} {words}",
    "{value} or {other}",
    "{other} or {value} {words}",
    "either {value} or {other}",
    "between {value} and {other}",
    "{value} or more {words}",
    "{value} {words} more than {other}",
    "at least {value} {words}",
    "up to {value}",
    "{words} anything but {value}",
    "twice {value}",
    "not {words} {value}",
)
PLACES = (
    "<think>Let me see.</think><answer>{}</answer>",
    "The answer is {}",
    "Therefore: {}",
    "{}",
)


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
    responses = _answers(question, value)
    columns = responses, [value] * NUMBER, [question] * NUMBER
    paid = []
    for response, verdict in zip(responses, judge_all(*columns), strict=True):
        if verdict.correct:
            paid.append((response, verdict.reason))
    assert paid == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_bare_value_is_paid(question):
    value = QUESTIONS[question]
    [verdict] = judge_all([PLACES[0].format(value)], [value], [question])
    assert verdict.correct
