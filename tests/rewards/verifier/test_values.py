"""Spellings, number words, units, types and rules: every row of the verifier's tables is fired."""

import re

import pytest

from rewards.verifier import algebra, judge
from rewards.verifier.arithmetic import far_apart
from rewards.verifier.compare import RULES
from rewards.verifier.equal import compare_answers
from rewards.verifier.notation import CHARACTERS, COMMANDS, SPELLINGS, plain
from rewards.verifier.numerals import PARTS, SCALES, WORDS, base_named, is_number_word, number
from rewards.verifier.units import CHANGES, KINDS, NAMES, NO_DOUBT, RATES, is_known_unit, unit
from rewards.verifier.value import value
from rewards.verifier.value_types import TYPES, Interval, Quantity, Relation, Union
from rewards.verifier.wholes import WHOLES, respelled
from tests.rewards.verifier.examples import EXAMPLES
from tests.tables import cases, rows

# ---- spellings


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_a_spelling_changes_its_examples_and_spares_the_others(spelling):
    examples = EXAMPLES["SPELLINGS", spelling.name]
    assert examples.matches and examples.spares
    for text, becomes in examples.matches.items():
        assert re.sub(spelling.pattern, spelling.replacement, text) == becomes
        assert plain(text) == plain(becomes)
    for text in examples.spares:
        assert re.sub(spelling.pattern, spelling.replacement, text) == text


@pytest.mark.parametrize(("name", "pattern", "replacement"), WHOLES)
def test_a_whole_changes_its_examples_and_spares_the_others(name, pattern, replacement):
    examples = EXAMPLES["WHOLES", name]
    assert examples.matches and examples.spares
    for text, becomes in examples.matches.items():
        assert respelled(text) == becomes
    for text in examples.spares:
        assert pattern.fullmatch(text) is None or respelled(text) == text


@pytest.mark.parametrize(("char", "written"), CHARACTERS.items())
def test_a_character_is_read_as_what_it_stands_for(char, written):
    assert plain(f"2{char}3") == plain(f"2{written}3")
    assert char not in plain(f"2{char}3")


@pytest.mark.parametrize(("command", "written"), COMMANDS.items())
def test_a_command_is_read_as_what_it_stands_for(command, written):
    assert plain(rf"2\{command} 3") == plain(f"2{written} 3")
    assert rf"\{command}x" in plain(rf"2\{command}x")


# ---- number words


def test_words_scales_and_parts_are_numbers():
    """None of the tables hides a row of another."""
    for word, n in WORDS.items():
        assert [number(word), base_named(word)] == [n, n], word
    assert not any(map(number, [*SCALES, *PARTS]))
    assert all(map(is_number_word, [*WORDS, *SCALES, *PARTS]))


@cases(__file__, "bases")
def test_a_base_has_a_name(name, base):
    assert base_named(name) == base


EQUAL = [row["spellings"] for row in rows(__file__, "equal")]
[UNREAD] = [[*row["texts"], "-" * 900, "(" * 900] for row in rows(__file__, "unread")]


def test_different_expressions_are_far_apart_and_equal_ones_never():
    for n, line in enumerate(EQUAL):
        for text in line:
            assert not any(far_apart(text, same) for same in line)
            assert all(
                far_apart(text, other)
                for m, others in enumerate(EQUAL)
                if m != n
                for other in others
            )
            assert not any(far_apart(text, unread) or far_apart(unread, text) for unread in UNREAD)


# ---- units


@pytest.mark.parametrize(("word", "name"), (NAMES | RATES).items())
def test_a_name_is_read_as_its_unit(word, name):
    assert unit(f" {word}") == name
    assert is_known_unit(name) and name.split()[0] in KINDS


@pytest.mark.parametrize("effect", CHANGES)
def test_words_that_change_the_number_are_no_unit_and_similar_ones_are(effect):
    for word in CHANGES[effect].split():
        assert unit(f" {word} eggs") is None or word == "times", word
        assert not isinstance(value(f"5 {word} eggs"), Quantity) or word == "times", word
    for name in EXAMPLES["CHANGES", effect].spares:
        assert isinstance(value(f"5 {name}"), Quantity), name


def test_no_word_has_two_effects():
    words = " ".join(CHANGES.values()).split()
    assert len(words) == len(set(words))


def test_some_words_in_ly_are_no_doubt():
    for word in NO_DOUBT:
        assert isinstance(value(f"5 {word} eggs"), Quantity), word
    assert not isinstance(value("5 likely eggs"), Quantity)


# ---- types and rules

READ = {row["kind"]: row["texts"] for row in rows(__file__, "types")}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_a_text_is_read_as_its_type(kind):
    assert {type(value(text)) for text in READ[kind.__name__]} == {kind}


def test_a_range_beside_sets_is_no_range():
    assert not isinstance(value(r"x > 1 and \{1\} \cup \{2\}"), Interval | Union)


def test_only_types_are_read():
    assert READ.keys() == {kind.__name__ for kind in TYPES}


CASES = []
for row in rows(__file__, "compared"):
    CASES += [(row["rule"], row["gold"], answer, True) for answer in row["correct"]]
    CASES += [(row["rule"], row["gold"], answer, False) for answer in row["incorrect"]]


@pytest.mark.parametrize(("rule", "gold", "answer", "correct"), CASES)
def test_a_rule_decides_and_says_so(rule, gold, answer, correct):
    reason = f"equal, {rule}" if correct else f"not equal to the gold, {rule}"
    assert compare_answers(gold, [answer], None, algebra) == (correct, reason)


def test_every_rule_says_correct_and_incorrect():
    assert {(rule, correct) for rule, _, _, correct in CASES} == {
        (rule.name, correct) for rule in RULES for correct in (0, 1)
    }


def test_every_pair_of_types_is_compared():
    """Pairs with a relation are all alike: its value is compared with the other's."""
    compared = {(type(value(gold)), type(value(answer))) for _, gold, answer, _ in CASES}
    pairs = {pair for rule in RULES for pair in rule.pairs if Relation not in pair}
    assert pairs <= compared


def test_no_pair_of_types_has_two_rules():
    pairs = [pair for rule in RULES for pair in rule.pairs]
    assert len(pairs) == len(set(pairs))


@cases(__file__, "kinds_apart")
def test_types_without_a_rule_differ(gold, answer):
    assert compare_answers(gold, [answer], None, algebra) == (
        False,
        "not equal to the gold, another kind of value",
    )


@cases(__file__, "questions")
def test_what_the_question_has_against_an_answer(asked, gold, answer, reason):
    verdict = judge(rf"\boxed{{{answer}}}", gold, question=asked)
    assert (verdict.correct, verdict.reason) == (False, reason)


def test_a_list_in_the_order_asked_for_may_stand_for_a_column():
    gold = r"\begin{pmatrix}1\\2\end{pmatrix}"
    question = "Give them in ascending order."
    assert compare_answers(gold, ["1, 2"], question, algebra) == (
        True,
        "equal, as named values",
    )
    assert not compare_answers(gold, ["2, 1"], question, algebra)[0]
    assert compare_answers("2, 1", [gold], question, algebra)[0] is False
