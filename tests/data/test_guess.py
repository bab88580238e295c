"""`make new` finds the columns of a table by their names, or by what they hold."""

import pytest

from data.files import DataError
from data.guess import guess
from tests.tables import cases


@cases(__file__, "columns_are_guessed")
def test_columns_are_guessed(rows, columns, message):
    if message:
        with pytest.raises(DataError, match=message):
            guess("x.csv", rows)
        return
    guessed = guess("x.csv", rows)
    assert guessed.columns == columns
    assert guessed.reasons.keys() == columns.keys()
