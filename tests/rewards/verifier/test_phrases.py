"""Every phrase of the verifier's tables decides its own examples, under its name, and spares the
others."""

import pytest

from rewards.verifier import phrases
from rewards.verifier.extract import extract
from rewards.verifier.phrases import Phrase, Table, hedge

TABLES = {name: table for name, table in vars(phrases).items() if isinstance(table, Table)}
REQUESTS = [each for each in vars(phrases).values() if isinstance(each, Phrase)]


def entries(*names: str) -> list:
    return [
        pytest.param(TABLES[n], phrase, id=f"{n}: {phrase.name}")
        for n in names
        for phrase in TABLES[n].phrases
    ]


# Which consequence a table has decides how its examples show it.
OBJECTIONS = [
    *(
        "DENIED_BEFORE",
        "PARTIAL_BEFORE",
        "DENIED_AFTER",
        "BOUND_BEFORE",
        "ROUNDED_BEFORE",
        "BOUND_AFTER",
    ),
    *("PART_BEFORE", "ARITHMETIC_BEFORE", "PART_AFTER", "RIVALS"),
]


def test_every_table_is_tested():
    assert {*OBJECTIONS, "HEDGES", "STATEMENTS"} == TABLES.keys()


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_no_two_phrases_of_a_table_have_one_name(table):
    assert len({phrase.name for phrase in table.phrases}) == len(table.phrases)


@pytest.mark.parametrize(("table", "phrase"), entries(*OBJECTIONS))
def test_an_objection_leaves_no_answer_and_names_its_phrase(table, phrase):
    for response in phrase.matches:
        found = extract(response)
        assert found.answers == [], response
        assert table.says.format(phrase.name) in found.reason, response
    for response in phrase.spares:
        found = extract(response)
        assert found.answers and all(found.answers), (response, found.reason)


@pytest.mark.parametrize(("table", "phrase"), entries("HEDGES"))
def test_a_hedged_answer_names_its_phrase(table, phrase):
    for answer in phrase.matches:
        assert hedge(answer) == f"doubted or denied: {phrase.name}", answer
    for answer in phrase.spares:
        assert hedge(answer) is None, answer


@pytest.mark.parametrize(("table", "phrase"), entries("STATEMENTS"))
def test_a_statement_ends_with_the_answer(table, phrase):
    alone = Table("{}", phrase, head="(?i)").regex
    for response in phrase.matches:
        assert alone.search(response), response
        assert extract(response).answers == ["$5$" if "$" in response else "5"], response
    for response in phrase.spares:
        assert not alone.search(response), response
        assert extract(response).answers == [response], "the line itself, as nothing is stated"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.name)
def test_a_request_is_found_in_its_examples_and_nowhere_else(request_):
    assert request_.matches and all(map(request_.of, request_.matches))
    assert request_.spares and not any(map(request_.of, request_.spares))


def test_no_two_requests_have_one_name():
    assert REQUESTS and len({request.name for request in REQUESTS}) == len(REQUESTS)


@pytest.mark.parametrize("lacking", ["matches", "spares"])
def test_a_phrase_without_examples_is_refused(lacking):
    examples = {"matches": ("a",), "spares": ("b",)} | {lacking: ()}
    with pytest.raises(ValueError, match="the phrase 'a letter' needs examples"):
        Phrase("a letter", "a", **examples)
