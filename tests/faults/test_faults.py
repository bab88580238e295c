"""Nothing is injected here: what the faults require is held against outcomes that have it, and that
lack some of it."""

import pytest

from tests.faults.__main__ import FAULTS
from tests.faults.outcome import Outcome

BY_NAME = [pytest.param(fault.required, id=fault.name) for fault in FAULTS]


def as_required(required) -> Outcome:
    return Outcome(required.exit, "\n".join(required.says), required.weights, required.noted)


def test_each_fault_has_a_name_of_its_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 44


@pytest.mark.parametrize("required", BY_NAME)
def test_what_is_required_is_enough(required):
    assert required.lacking(as_required(required)) == []


@pytest.mark.parametrize("required", BY_NAME)
def test_each_requirement_alone_can_fail(required):
    good = as_required(required)
    bad = [good._replace(said=good.said.replace(text, "")) for text in required.says]
    bad += [good._replace(noted=good.noted | {what: None}) for what in required.noted]
    bad += [
        good._replace(exit=code)
        for code in (1 - (required.exit or 0), None)
        if required.exit is not None
    ]
    bad += [
        good._replace(weights=other)
        for other in ("other", "not finite", "no", "")
        if required.weights
    ]
    assert bad and all(len(required.lacking(each)) == 1 for each in bad)


@pytest.mark.parametrize("required", BY_NAME)
def test_a_run_that_says_nothing_and_leaves_nothing_is_refused(required):
    assert required.lacking(Outcome(None, "", "no"))


def test_a_line_of_the_table_quotes_what_was_required_of_it():
    required = next(fault.required for fault in FAULTS if fault.name == "two runs on one folder")
    said = "loading\nError: … is in use by process 7: wait\n"
    outcome = Outcome(2, said, "same", {"exit of the first": 0})
    told = "exit 2; Error: … is in use by process 7: wait; exit of the first: 0; same weights"
    assert outcome.told(required) == told
    assert str(required) == "exit 2; says 'in use by process'; exit of the first: 0; same weights"
