"""Spellings, number words, units, types and rules: every row of the verifier's tables is fired."""

import re
from fractions import Fraction

import pytest

from rewards.verifier import algebra, judge
from rewards.verifier.arithmetic import far_apart
from rewards.verifier.compare import RULES
from rewards.verifier.equal import compare_answers
from rewards.verifier.notation import CHARACTERS, COMMANDS, SPELLINGS, plain
from rewards.verifier.numerals import PARTS, SCALES, WORDS, base_named, is_number_word, number
from rewards.verifier.units import CHANGES, KINDS, NAMES, NO_DOUBT, RATES, is_known_unit, unit
from rewards.verifier.value import value
from rewards.verifier.value_types import (
    TYPES,
    Clock,
    Expr,
    InBase,
    Interval,
    List,
    Matrix,
    Measure,
    Quantity,
    Ratio,
    Relation,
    Set,
    Tuple,
    Union,
    Words,
)
from rewards.verifier.wholes import WHOLES, respelled
from tests.rewards.verifier.examples import EXAMPLES

# ---- spellings


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_a_spelling_changes_its_examples_and_spares_the_others(spelling):
    examples = EXAMPLES["SPELLINGS", spelling.name]
    assert examples.matches and examples.spares
    for text, becomes in examples.matches.items():
        assert re.sub(spelling.pattern, spelling.replacement, text) == becomes
    for text in examples.spares:
        assert re.sub(spelling.pattern, spelling.replacement, text) == text


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_a_spelling_reads_like_what_it_becomes(spelling):
    for text, becomes in EXAMPLES["SPELLINGS", spelling.name].matches.items():
        assert plain(text) == plain(becomes)


def test_names_are_used_once():
    assert len({spelling.name for spelling in SPELLINGS}) == len(SPELLINGS)
    assert len({whole.name for whole in WHOLES}) == len(WHOLES)


@pytest.mark.parametrize("whole", WHOLES, ids=lambda whole: whole.name)
def test_a_whole_changes_its_examples_and_spares_the_others(whole):
    examples = EXAMPLES["WHOLES", whole.name]
    assert examples.matches and examples.spares
    for text, becomes in examples.matches.items():
        assert respelled(text) == becomes
    for text in examples.spares:
        match = re.fullmatch(whole.pattern, text)
        assert match is None or whole.replacement(match) is None


@pytest.mark.parametrize(("char", "written"), CHARACTERS.items())
def test_a_character_is_read_as_what_it_stands_for(char, written):
    assert plain(f"2{char}3") == plain(f"2{written}3")
    assert char not in plain(f"2{char}3")


@pytest.mark.parametrize(("command", "written"), COMMANDS.items())
def test_a_command_is_read_as_what_it_stands_for(command, written):
    assert plain(rf"2\{command} 3") == plain(f"2{written} 3")
    assert rf"\{command}x" in plain(rf"2\{command}x")


# ---- number words


@pytest.mark.parametrize(("word", "n"), WORDS.items())
def test_a_word_is_a_number(word, n):
    assert number(word) == n and is_number_word(word) and base_named(word) == n
    assert number(f"minus {word}") == -n


@pytest.mark.parametrize(("word", "scale"), SCALES.items())
def test_a_scale_multiplies(word, scale):
    assert number(f"two {word}") == 2 * scale and is_number_word(word)
    assert number(word) is None


@pytest.mark.parametrize(("word", "parts"), PARTS.items())
def test_a_part_divides(word, parts):
    assert number(f"three {word}") == Fraction(3, parts) and is_number_word(word)


@pytest.mark.parametrize(
    ("name", "base"),
    [("2", 2), ("16", 16), ("binary", 2), ("decimal", 10), ("b", None), ("100", None)],
)
def test_a_base_has_a_name(name, base):
    assert base_named(name) == base


# Spellings of one value on a line; of another, on each line.
EQUAL = [
    [
        r"\frac{1+\sqrt{5}}{2}",
        r"\frac{2}{\sqrt{5}-1}",
        r"\frac{1}{2}+\frac{\sqrt{5}}{2}",
        r"\frac{1}{2}(1 + \sqrt{5})",
    ],
    [
        r"\sqrt{12}",
        r"2\sqrt{3}",
        r"2 \times \sqrt{3}",
        r"12^{\frac{1}{2}}",
        r"--\frac{6}{\sqrt{3}}",
    ],
    ["(x+1)^2", "x^2+2x+1", "1 + x(x + 2)", r"\frac{1}{(x+1)^{-2}}"],
    [r"-x^{2}\pi y", r"\pi\cdot -xxy", r"-\frac{y}{x^{-2}}\pi"],
    [r"\frac{\frac{1}{2}x}{0.25}y^{2}z", "2xy^2z"],
    ["3+4i", r"\frac{6+8i}{2}", "4i - -3"],
    [r"x + 1/2\pi", r"\frac{1}{2\pi}+x"],
]
# What the fast reading leaves to the algebra, or to no one.
UNREAD = [
    "2 3",
    r"1\frac{1}{2}",
    r"\frac{1}{2}^2",
    r"2^\frac{1}{2}",
    "x^{2}^3",
    "2**3",
    "10^{20}",
    "9^{9^{9}}",
    "3-2i^2",
    r"\frac{2}{i}",
    "f(x)",
]
UNREAD += [
    r"\sqrt[3]{2}",
    r"\sqrt{-2}",
    r"\frac{1}{0}",
    "2)3",
    "+",
    "",
    "{}",
    r"{1}{2}\frac",
    "-" * 900,
    "(" * 900,
    "5!",
]
UNREAD += ["0.1234567890123456", "1234567890123456"]


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


@pytest.mark.parametrize(
    ("answer", "gold", "effect"),
    [
        ("5 or 6", "5", "another answer, or"),
        ("5 unless it rains", "5", "a denial, unless"),
        ("5 presumably", "5", "a doubt, presumably"),
        ("five approx", "5", "a rounding, approx"),
        ("5 approx", "x^2", "a rounding, approx"),
        ("over 5", "5", "a bound, over"),
        ("5 is", "5", "a claim, is"),
        ("The total is under 5", "5", "a bound, under"),
        ("x = 5 approx", "5", "a rounding, approx"),
        ("July 20", "20", "a month, july"),
        ("5 minus", "5", "arithmetic, minus"),
        ("doubled 5", "5", "a multiple, doubled"),
    ],
)
def test_a_verdict_names_the_effect_and_its_word(answer, gold, effect):
    verdict = judge(f"<answer>{answer}</answer>", gold)
    assert (verdict.right, verdict.reason) == (False, f"not equal to the gold: {effect}")


def test_every_effect_is_named_by_a_verdict():
    for effect, words in CHANGES.items():
        reasons = [judge(f"<answer>5 {word} eggs</answer>", "5").reason for word in words.split()]
        start = f"not equal to the gold: {effect}, "
        assert any(reason.startswith(start) for reason in reasons), effect


def test_no_word_has_two_effects():
    words = " ".join(CHANGES.values()).split()
    assert len(words) == len(set(words))


def test_some_words_in_ly_are_no_doubt():
    for word in NO_DOUBT:
        assert isinstance(value(f"5 {word} eggs"), Quantity), word
    assert not isinstance(value("5 likely eggs"), Quantity)


# ---- types and rules

READ = [
    (Quantity, ["18", r"\$18", "5 cm", r"20\%", "1.5 million", "twelve apples", r"\frac{1}{2}"]),
    (Expr, ["x^2+1", r"2\sqrt{3}", "40+2", r"-\infty", "f(3)"]),
    (Words, ["ellipse", r"\text{Monday}", "yes"]),
    (Clock, ["3:30 p.m.", "noon", "5 o'clock"]),
    (InBase, ["1011_2", r"1011_{\text{two}}", "1011 base 2", "1F base sixteen"]),
    (Ratio, ["2:3", "1:2:3", "3:30"]),
    (Measure, ["6 ft 2 in", "2 hours and 30 minutes"]),
    (
        Interval,
        [
            "(1,2)",
            "[0,5)",
            "x < 5",
            r"1 < x \le 2",
            r"x \in (1,2)",
            r"\mathbb{R}",
        ],
    ),
    (Tuple, ["(1,2,3)", "[1,2,3]"]),
    (Set, [r"\{1,2\}", r"\emptyset", r"\{x\}"]),
    (List, ["1, 2", "1 or 2", r"\pm 3", r"1, \pm 2", "x=1, y=2"]),
    (Union, [r"(0,1) \cup (2,3)", r"x < 1 \text{ or } x > 2", r"x \ne 3", r"\{1\} \cup \{2\}"]),
    (Matrix, [r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"]),
    (Relation, ["y = 2x + 1", "a < b < c", r"\approx 2.83", "2x < 3y"]),
]


@pytest.mark.parametrize(("kind", "texts"), READ, ids=lambda x: getattr(x, "__name__", ""))
def test_a_text_is_read_as_its_type(kind, texts):
    assert [type(value(text)) for text in texts] == [kind] * len(texts)


def test_a_range_beside_sets_is_no_range():
    assert not isinstance(value(r"x > 1 and \{1\} \cup \{2\}"), Interval | Union)


def test_every_type_is_read():
    assert [kind for kind, _ in READ] == sorted(TYPES, key=[kind for kind, _ in READ].index)


COLUMN, THREE = (
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
    r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}",
)
# rule, gold, right answers, wrong answers
COMPARED = [
    ("as numbers", "2.5", ["5/2", "two and a half"], ["2.51", "2"]),
    ("as expressions", "x^2+x", ["x(x+1)"], ["x^2-x", "6"]),
    ("as expressions", "2^3", ["8"], ["9"]),
    ("as words", "ellipse", ["an Ellipse", r"\text{the} ellipse"], ["circle", "xy"]),
    ("as words", r"\text{the} ab", ["ab"], ["bc"]),
    ("as words", "ab", [r"\text{the} ab"], [r"\text{the} bc"]),
    ("as times of day", "3:30 p.m.", ["15:30", "3:30 PM"], ["3:30", "3:30 a.m.", "15.5"]),
    ("as times of day", "3:30", ["3:30 p.m.", "3:30 a.m."], ["4:30 p.m."]),
    ("as times of day", "5 o'clock", ["5", "5 p.m."], ["6"]),
    ("as times of day", "5", ["5 o'clock"], ["6 o'clock", "5 p.m."]),
    ("as numbers in a base", "1011_2", ["1011", "1011 base two"], ["11", "1011_3", "x"]),
    ("as numbers in a base", "1011", ["1011_{10}"], ["1011_2"]),
    ("as numbers in a base", "1A_{16}", ["1A"], ["1B"]),
    ("as numbers in a base", "1A", [], ["1A_{16}"]),
    ("as ratios", "2:3", ["4:6", "2/3"], ["3:2", "2:3:4", "3/2"]),
    ("as ratios", "2/3", ["2:3"], ["3:2"]),
    ("as measures", "6 ft 2 in", ["6 feet 2 inches"], ["6 ft 3 in", "6 m 2 cm"]),
    ("as tuples", "(1,2,3)", ["(1, 4/2, 3)"], ["(2,1,3)", "(1,2,3,4)"]),
    (
        "as intervals or points",
        "[0,5)",
        [r"0 \le x < 5", r"[0, \frac{10}{2})"],
        ["[0,5]", "(0,5)", "[0,6)"],
    ),
    ("as matrices", COLUMN, [r"\begin{bmatrix} 1 \\ 4/2 \end{bmatrix}"], [THREE]),
    ("as columns", COLUMN, ["(1, 2)"], ["(2,1)", "(1,2,3)", "[1,2]"]),
    ("as columns", THREE, ["(1,2,3)"], ["(1,3,2)"]),
    ("as columns", "(1,2)", [COLUMN], [THREE]),
    ("as columns", "(1,2,3)", [THREE], [COLUMN]),
    ("as named values", "(1,2)", ["x=1, y=2"], ["y=1, x=2", "1, 2", "x=2, y=1"]),
    ("as named values", "(1,2,3)", ["x=1, y=2, z=3"], ["x=1, y=2"]),
    ("as named values", r"\begin{pmatrix}1\\2\end{pmatrix}", ["x=1, y=2"], ["x=2, y=1"]),
    (
        "as named values",
        "x=1, y=2",
        [r"\begin{pmatrix}1\\2\end{pmatrix}"],
        [r"\begin{pmatrix}2\\1\end{pmatrix}"],
    ),
    ("as named values", "x=1, y=2", ["(1,2)"], ["(2,1)", "[1,2]", "(1,2,3)"]),
    (
        "as lists, sets or unions",
        "1, 2",
        ["2, 1", r"\{2, 1\}", "x=1 or x=2"],
        ["1, 3", "1, 2, 3", r"\{1, 3\}"],
    ),
    ("as lists, sets or unions", r"\{1,2\}", [r"\{2,1\}", "2 and 1"], [r"\{1,3\}", "1, 1"]),
    ("as lists, sets or unions", "x=1, y=2", ["1, 2"], ["2, 1", r"\{1, 2\}"]),
    ("as a set of one", r"\{5\}", ["5", "10/2"], ["6"]),
    ("as a set of one", r"\{x+1\}", ["1+x"], ["x-1"]),
    ("as a set of one", r"\{\text{red}\}", ["the red"], ["blue"]),
    ("as a set of one", r"\{11_2\}", ["11 base 2"], ["11_3"]),
    ("as a set of one", "5", [r"\{5\}"], [r"\{6\}", r"\{5, 6\}"]),
    ("as a set of one", "x+1", [r"\{1+x\}"], [r"\{x-1\}"]),
    ("as a set of one", r"\text{red}", [r"\{red\}"], [r"\{blue\}"]),
    ("as a set of one", "11_2", [r"\{11_{two}\}"], [r"\{11_3\}"]),
    (
        "as lists, sets or unions",
        r"(0,1) \cup (2,3)",
        [r"(2,3) \cup (0,1)"],
        [r"(0,1) \cup (2,3]", r"(0,1) \cup (2,3) \cup (4,5)"],
    ),
    ("as measures", "2 h 20 min", ["2 hours 20 minutes"], ["2 h 30 min", "1 h 80 min"]),
    ("as relations", "y=2x+1", ["y-2x=1", "y = 1+2x"], ["y=2x", "x=2y+1"]),
    ("as relations", "x=5", ["5 = x"], ["2x=10", "x=6"]),
    ("as the value of the gold's relation", "k=3", ["3", "6/2"], ["4", "k", "(3,3)"]),
    ("as the value of the gold's relation", r"0.56 = 56\%", ["0.56"], ["0.57"]),
    (
        "as the value of the answer's relation",
        "42",
        ["40+2 = 42", "x = 42"],
        ["40+2 = 43", "2x = 84"],
    ),
    (
        "as the value of the answer's relation",
        r"2\sqrt{2}",
        [r"2\sqrt{2} \approx 2.83"],
        [r"2\sqrt{2} \approx 3.83"],
    ),
]
CASES = [
    (rule, gold, answer, right)
    for rule, gold, *answers in COMPARED
    for right, given in zip((True, False), answers, strict=True)
    for answer in given
]


@pytest.mark.parametrize(("rule", "gold", "answer", "right"), CASES)
def test_a_rule_decides_and_says_so(rule, gold, answer, right):
    reason = f"equal, {rule}" if right else f"not equal to the gold, {rule}"
    assert compare_answers(gold, [answer], None, False, algebra) == (right, reason)


def test_every_rule_says_right_and_wrong():
    assert {(rule, right) for rule, _, _, right in CASES} == {
        (rule.name, right) for rule in RULES for right in (0, 1)
    }


def test_every_pair_of_types_is_compared():
    """Pairs with a relation are all alike: its value is compared with the other's."""
    compared = {(type(value(gold)), type(value(answer))) for _, gold, answer, _ in CASES}
    pairs = {pair for rule in RULES for pair in rule.pairs if Relation not in pair}
    assert pairs <= compared


def test_no_pair_of_types_has_two_rules():
    pairs = [pair for rule in RULES for pair in rule.pairs]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "40+2"),
        ("(1,2,3)", r"\{1,2,3\}"),
        ("1, 2", r"(0,1) \cup (1,2)"),
        ("ellipse", "5"),
        ("3:30 p.m.", "yes"),
    ],
)
def test_types_without_a_rule_differ(gold, answer):
    assert compare_answers(gold, [answer], None, False, algebra) == (
        False,
        "not equal to the gold, another kind of value",
    )


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


def test_a_list_in_the_order_asked_for_may_stand_for_a_column():
    gold = r"\begin{pmatrix}1\\2\end{pmatrix}"
    question = "Give them in ascending order."
    assert compare_answers(gold, ["1, 2"], question, False, algebra) == (
        True,
        "equal, as named values",
    )
    assert not compare_answers(gold, ["2, 1"], question, False, algebra)[0]
    assert compare_answers("2, 1", [gold], question, False, algebra)[0] is False
