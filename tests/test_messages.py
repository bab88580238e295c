"""The recorded messages of tests/messages.txt."""

import re

import pytest

from tests import messages
from tests.support import ROOT


@pytest.fixture
def empty_file(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "FILE", tmp_path / "messages.txt")
    monkeypatch.delenv("UPDATE_MESSAGES", raising=False)


def test_a_message_that_differs_from_the_record_fails(empty_file, monkeypatch):
    with pytest.raises(AssertionError, match="has no message of stages"):
        messages.check_message("stages/test_x.py::test_y", "one\n\ntwo")
    monkeypatch.setenv("UPDATE_MESSAGES", "1")
    messages.check_message("stages/test_x.py::test_y", "one\n\ntwo")
    monkeypatch.delenv("UPDATE_MESSAGES")
    messages.check_message("stages/test_x.py::test_y", "one\n\ntwo")
    with pytest.raises(AssertionError):
        messages.check_message("stages/test_x.py::test_y", "one\n\nthree")


def test_folders_of_a_machine_are_not_part_of_a_message():
    places = {"/tmp/a": "<tmp>", "/tmp/a/house": "<house>"}
    text = messages.without_places("/tmp/a/house/x.yaml:3  \n/tmp/a/y\n", places)
    assert text == "<house>/x.yaml:3\n<tmp>/y"


def test_every_recorded_message_has_its_test():
    for name in messages.recorded_messages():
        path, _, test = name.partition("::")
        source = (ROOT / "tests" / path).read_text(encoding="utf-8")
        function = re.match(r"\w+", test)[0]
        assert f"def {function}(" in source, name
