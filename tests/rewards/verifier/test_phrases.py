"""Every phrase of the verifier's tables decides its own examples, under its name, and spares the
others; every entry of every table has examples."""

import re

import pytest

from rewards.verifier import phrases
from rewards.verifier.extract import extract
from rewards.verifier.notation import SPELLINGS
from rewards.verifier.phrases import hedge
from rewards.verifier.tables import rows
from rewards.verifier.units import CHANGES
from rewards.verifier.wholes import WHOLES
from tests.rewards.verifier.examples import EXAMPLES

TABLES = phrases.TABLES


def entries(*names: str) -> list:
    pairs = [(name, phrase) for name in names for phrase in TABLES[name].phrases]
    return [pytest.param(*pair, id=f"{pair[0]}: {pair[1].name}") for pair in pairs]


# Which consequence a table has decides how its examples show it.
OBJECTIONS = ["DENIED_BEFORE", "PARTIAL_BEFORE", "DENIED_AFTER", "BOUND_BEFORE", "ROUNDED_BEFORE"]
OBJECTIONS += ["BOUND_AFTER", "PART_BEFORE", "ARITHMETIC_BEFORE", "PART_AFTER", "RIVALS"]


# Table to the names of its entries, as examples.tsv writes both.
NAMES = {name: [phrase.name for phrase in table.phrases] for name, table in TABLES.items()}
NAMES["STATEMENTS"] = [name for name, _ in rows("announcements.tsv")]
NAMES["REQUESTS"] = list(phrases.REQUESTS)
NAMES["SPELLINGS"] = [spelling.name for spelling in SPELLINGS]
NAMES["WHOLES"] = [name for name, _, _ in WHOLES]
NAMES["CHANGES"] = list(CHANGES)
ENTRIES = [(table, name) for table, names in NAMES.items() for name in names]


@pytest.mark.parametrize(("table", "name"), ENTRIES, ids=map(": ".join, ENTRIES))
def test_an_entry_has_examples(table, name):
    assert (table, name) in EXAMPLES, "examples.tsv needs rows for it"
    examples = EXAMPLES[table, name]
    # An entry of CHANGES matches its own words.
    assert examples.matches or table == "CHANGES", "examples.tsv needs a text that it matches"
    assert examples.spares, "examples.tsv needs a text that it spares"


def test_an_example_is_of_an_entry():
    assert [entry for entry in EXAMPLES if entry not in ENTRIES] == []


def test_every_table_is_tested():
    assert {*OBJECTIONS, "HEDGES"} == TABLES.keys()


@pytest.mark.parametrize("table", NAMES)
def test_no_two_entries_of_a_table_have_one_name(table):
    assert NAMES[table] and len({*NAMES[table]}) == len(NAMES[table])


@pytest.mark.parametrize(("table", "phrase"), entries(*OBJECTIONS))
def test_an_objection_leaves_no_answer_and_names_its_phrase(table, phrase):
    examples = EXAMPLES[table, phrase.name]
    for completion in examples.matches:
        found = extract(completion)
        assert found.answers == [], completion
        assert TABLES[table].consequence.format(phrase.name) in found.reason, completion
    for completion in examples.spares:
        found = extract(completion)
        assert found.answers and all(found.answers), (completion, found.reason)


@pytest.mark.parametrize(("table", "phrase"), entries("HEDGES"))
def test_a_hedged_answer_names_its_phrase(table, phrase):
    examples = EXAMPLES[table, phrase.name]
    for answer in examples.matches:
        assert hedge(answer) == f"doubted or denied: {phrase.name}", answer
    for answer in examples.spares:
        assert hedge(answer) is None, answer


@pytest.mark.parametrize(("name", "pattern"), rows("announcements.tsv"))
def test_an_announcement_ends_with_the_answer(name, pattern):
    alone = re.compile(f"(?i){pattern}")
    examples = EXAMPLES["STATEMENTS", name]
    for completion in examples.matches:
        assert alone.search(completion), completion
        assert extract(completion).answers == ["$5$" if "$" in completion else "5"], completion
    for completion in examples.spares:
        assert not alone.search(completion), completion
        assert extract(completion).answers == [], completion


@pytest.mark.parametrize(("name", "pattern"), phrases.REQUESTS.items())
def test_a_request_is_found_in_its_examples_and_nowhere_else(name, pattern):
    examples = EXAMPLES["REQUESTS", name]
    assert examples.matches and all(map(pattern.search, examples.matches))
    assert examples.spares and not any(map(pattern.search, examples.spares))
