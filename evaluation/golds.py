"""The golds of a data set before a run is paid by them: which the verifier cannot judge, which no
plain answer earns, and how it reads the others."""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from console.faults import Fault
from console.terminal import make_command, say
from data.prompt import completion
from evaluation.completions import judge_rows
from rewards.verifier import CONTRACT, STRICT, gold_answer, kind_of_gold
from rewards.verifier.value import value
from rewards.verifier.value_types import (
    Expr,
    Interval,
    List,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
    Words,
)
from schema.recipe import Recipe
from schema.stages import audits_before_training

GOLDS = 200  # golds of the training data that the verifier is tried on
EXAMPLES = 3  # golds that a message names, and problems that `make check` prints
MOST_WORDS = 5  # of a gold that a model may be expected to repeat
INCORRECT = "-1000003"  # an answer that is no gold
SENTENCE = re.compile(r"[A-Z]\S* (?:\S+ ){2,}\S*[a-z\d)$][.!]")  # of four words or more

_LONGEST = 300  # characters of a gold that is read here
_MOST_BRACKETS = 12
_NUMBER = r"[-−]?\d+(?:\.\d+)?"
_UNIT = r"(?:\s*(?:\\?%|°|\\text\{[^{}]*\})|\s+[A-Za-zµ€£$][^\d,;]*(?:\^?\{?-?\d\}?)?)?"
_MEASUREMENT = re.compile(rf"\(?({_NUMBER})\s*(?:±|\\pm|\+/?[-−])\s*{_NUMBER}\)?{_UNIT}")
_RANGE = re.compile(
    rf"[$€£]?({_NUMBER})[$€£]?\s*(?:[-–—−~]|\.\.+|…|to|bis|à)\s*[$€£]?({_NUMBER})[$€£]?{_UNIT}"
)
# 10,5 and 1.234,5, but no 1,234, whose comma groups thousands.
_DECIMAL_COMMA = re.compile(
    rf"(?!\D?[1-9]\d{{0,2}},\d{{3}}(?!\d))([-−]?\d{{1,3}}(?:[. ]\d{{3}})+|[-−]?\d+),(\d+){_UNIT}"
)
_LEFT = re.compile(r"\\left(?![a-z])")
_RIGHT = re.compile(r"\\right(?![a-z])")
_PART_OF_COMMAND = re.compile(
    r"(?<![\\A-Za-z])(?:[dt]?frac|rac|sqrt|text|ext)\{|\\(?:[dt]?frac|sqrt|text|cdot|times)\s*\Z"
)
_SEVERAL = re.compile(
    r"\b(?:(?<!in )all|both|commas?|ordered|pairs?|solutions|values|roots|zeros|respectively"
    r"|of each)\b",
    re.IGNORECASE,
)
_FUNCTIONS = r"a?r?c?(?:sin|cos|tan|cot|sec|csc)h?|sqrt|log|exp|floor|ceil|min|max|gcd|lcm|mod|det"
_LONG_WORD = re.compile(
    rf"(?<![\\A-Za-z_^])(?!(?:{_FUNCTIONS})(?![A-Za-z]))[A-Za-z]{{4,}}|(?![ -~])[^\W\d_]"
)
_SHORT_WORD = re.compile(r"(?:^|[\s(\[])(?:[A-Za-z]{1,3}\.|[A-Za-z]{2,3})(?=[\s)\]]|$)")
_OPERATOR = re.compile(r"[=+*/^_\\<>]|\d\s*-")
_MONTH = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)


class Suspicion(NamedTuple):
    """What is wrong with a gold, unless the verifier pays one of the plain answers to it."""

    reason: str
    answers: list[str]


def suspicion(gold: str, problem: str) -> Suspicion | None:
    """Why a model that solves the problem may write something other than its gold; None where
    nothing speaks for it, or the gold is too long to read without a limit on the time."""
    if len(gold) > _LONGEST or sum(map(gold.count, "([{")) > _MOST_BRACKETS:
        return None
    damage = _damage(gold)
    if damage:
        return Suspicion(f"broken LaTeX: {damage}", [])
    if gold.rstrip().endswith("?") and len(gold.split()) > 2:
        return Suspicion("a question: are the columns of problem and answer swapped?", [])
    if SENTENCE.fullmatch(gold):
        return Suspicion("an answer has to say this sentence: mark its value, #### 5", [])
    several = _several_numbers(gold, problem)
    if several:
        return several
    numbers = re.findall(r"\d+(?:[.,]\d+)*", gold)
    typed = value(gold)
    if isinstance(typed, Relation) and not typed.sides[0]:
        return Suspicion("an inequality without its variable", numbers)
    if numbers and not _MONTH.search(gold) and any(map(_has_words, _expressions(typed))):
        return Suspicion("words stand beside the number: leave the number", numbers)
    is_long = isinstance(typed, Words) and len(typed.text.split()) > MOST_WORDS
    if is_long and gold.casefold() not in problem.casefold():
        return Suspicion("an answer has to repeat all of these words: mark its value", [])
    return None


def _several_numbers(gold: str, problem: str) -> Suspicion | None:
    """Why a gold that is written with several numbers may mean one."""
    match = _MEASUREMENT.fullmatch(gold)
    if match:
        return Suspicion("a measurement with its error: leave the number", [match[1]])
    match = _RANGE.fullmatch(gold)
    if match:
        return Suspicion("a range: leave one number", [match[1], match[2]])
    match = _DECIMAL_COMMA.fullmatch(gold)
    if match and not _SEVERAL.search(problem):
        decimal = f"{re.sub('[. ]', '', match[1])}.{match[2]}"
        reason = f"two numbers to the verifier: write {decimal}, or {match[1]}, {match[2]}"
        return Suspicion(reason, [decimal])
    return None


def _damage(gold: str) -> str | None:
    """What the LaTeX of a gold lacks."""
    text = re.sub(r"\\[{}]", "", gold)
    if text.count("{") != text.count("}"):
        return "its braces do not match"
    if len(_LEFT.findall(gold)) != len(_RIGHT.findall(gold)):
        return r"`\left` without `\right`"
    if _PART_OF_COMMAND.search(gold):
        return "a command lacks its backslash or its end"
    return None


def _expressions(typed: Value) -> Iterator[str]:
    """The texts in a value that are no numbers to the verifier; of words, those in a list."""
    if isinstance(typed, Expr):
        yield typed.text
    elif isinstance(typed, Relation):
        yield from typed.sides
    elif isinstance(typed, List | Set | Tuple | Interval | Union):
        for item in typed.items:
            yield from [item.text] if isinstance(item, Words) else _expressions(item)


def _has_words(text: str) -> bool:
    """Whether words stand in an expression, and no product of variables."""
    text = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text)
    if _LONG_WORD.search(text):
        return True
    is_formula = _OPERATOR.search(text) or not re.search(r"\d", text)
    return _SHORT_WORD.search(text) is not None and not is_formula


def by_gradability(rows: list[dict], recipe: Recipe) -> tuple[list[dict], list[tuple[dict, str]]]:
    """The rows whose correct answers the verifier tells from incorrect ones, and whose golds a
    plain answer earns; and all others, each with the reason."""
    judged_rows = []
    answers = []
    suspicions = []
    for row in rows:
        gold = gold_answer(row["solution"])
        doubt = suspicion(gold, row["problem"])
        suspicions.append(doubt)
        plain_answers = doubt.answers if doubt else []
        for answer in (gold, INCORRECT, *plain_answers):
            judged_rows.append(row)
            answers.append(answer)
    verdicts = iter(_verdicts(judged_rows, answers, recipe))
    gradable = []
    ungraded = []
    for row, doubt in zip(rows, suspicions, strict=True):
        echo = next(verdicts)
        false_verdict = next(verdicts)
        is_earned = False
        if doubt:
            plain_verdicts = [next(verdicts) for _ in doubt.answers]
            is_earned = True in plain_verdicts
        if doubt and not is_earned:
            ungraded.append((row, doubt.reason))
        elif echo is not True:
            ungraded.append((row, "the gold answer itself is judged incorrect"))
        elif false_verdict is not False:
            ungraded.append((row, "cannot be told from an incorrect answer"))
        else:
            gradable.append(row)
    return gradable, ungraded


def _verdicts(rows: list[dict], answers: list[str], recipe: Recipe) -> list[bool | None]:
    """Whether each answer, in a box and in the format that the recipes ask for, is correct for its
    row."""
    completions = [
        completion("So it is.", rf"\boxed{{{answer}}}", opened=False) for answer in answers
    ]
    reading = STRICT if recipe.strict else CONTRACT
    verdicts = judge_rows(rows, completions, reading=reading, tolerance=recipe.tolerance)
    return [verdict.correct for verdict in verdicts]


def some_golds(rows: list[dict], recipe: Recipe) -> tuple[list[dict], list[tuple[dict, str]]]:
    """`by_gradability` of a sample of the rows."""
    sample = random.Random(0).sample(rows, min(GOLDS, len(rows)))
    return by_gradability(sample, recipe)


def description(gradable: list[dict], ungraded: list[tuple[dict, str]]) -> str:
    """How many golds are of no use, and three of them, of several kinds if there are several."""
    of_each_kind = {reason: (row, reason) for row, reason in reversed(ungraded)}
    examples = [*of_each_kind.values()][::-1]
    examples += [pair for pair in ungraded if pair not in examples]
    listed = []
    for row, reason in examples[:EXAMPLES]:
        listed.append(f"{row['solution'][-60:]!r} ({reason})")
    return (
        f"{len(ungraded)} of {len(gradable) + len(ungraded)} golds cannot be judged, or no plain"
        f" answer earns them: {'; '.join(listed)}"
    )


def gold_faults(
    gradable: list[dict], ungraded: list[tuple[dict, str]], recipe: Recipe
) -> Iterator[Fault]:
    """The fault of golds that cannot be judged, or that no plain answer earns: an error if they are
    above a tenth, unless AUDIT=off."""
    if not ungraded:
        return
    share = len(ungraded) / (len(gradable) + len(ungraded))
    advice = f"correct them, or leave them out ({make_command('audit', recipe)} lists more)"
    level = "hint"
    if share > 1 / 20:
        level = "warning"
    if share > 1 / 10:
        advice += "; or name another column of answers, columns: {answer: …}"
        if audits_before_training():
            level = "error"
            advice += "; AUDIT=off make … trains all the same"
    message = f"{description(gradable, ungraded)}; {advice}"
    yield recipe.fault(level, ("data", "train"), message)


def say_examples(gradable: list[dict], recipe: Recipe):
    """Say what three golds are read as, of several types if there are several, with an answer that
    earns 1 and one that does not."""
    of_each_type = {}
    for row in gradable:
        of_each_type.setdefault(type(value(gold_answer(row["solution"]))), row)
    rows = [*of_each_type.values()]
    rows += [row for row in gradable if row not in rows][:EXAMPLES]
    rows = rows[:EXAMPLES]
    golds = [gold_answer(row["solution"]) for row in rows]
    changed = list(map(_changed, golds))
    verdicts = _verdicts(rows, changed, recipe)
    for row, gold, answer, verdict in zip(rows, golds, changed, verdicts, strict=True):
        unpaid = answer if verdict is False else INCORRECT
        end = " ".join(row["problem"].split())[-60:]
        gold_text = gold[:60]
        say(
            f"gold {gold_text!r} of {end!r} is read as {kind_of_gold(gold)}:"
            f" \\boxed{{{gold_text}}} earns 1, \\boxed{{{unpaid[:60]}}} does not"
        )


def _changed(gold: str) -> str:
    """The gold with another last digit."""
    digit = re.search(r"\d(?=\D*\Z)", gold, re.ASCII)
    if digit is None:
        return INCORRECT
    return f"{gold[: digit.start()]}{(int(digit[0]) + 1) % 10}{gold[digit.end() :]}"
