"""Tables of cases, in a YAML file beside the test that reads them: a row a line, with the names of
its columns; and the texts that a test needs, such as recipes."""

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML


@cache
def _tables(file: Path) -> dict[str, list[dict]]:
    return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))


def yaml_text(test_file: str, name: str) -> str | dict[str, str]:
    """Read a text, or several by their names, of the YAML file that is named as the test's is."""
    return _tables(Path(test_file).with_suffix(".yaml"))[name]


def rows(test_file: str, table: str) -> list[dict]:
    """Read the rows of a table in the YAML file that is named as the test's file is."""
    return _tables(Path(test_file).with_suffix(".yaml"))[table]


def cases(test_file: str, table: str, *long_rows: tuple):
    """Parametrize a test by a table. The columns of the first row are its arguments: a later row
    may leave one out, which is then None. A column `case` is the name of the row. Rows whose texts
    are too long for a file come behind it."""
    table_rows = rows(test_file, table)
    columns = [column for column in table_rows[0] if column != "case"]
    unknown = set().union(*table_rows) - set(columns) - {"case"}
    assert not unknown, f"{table}: the first row has no {unknown}"
    parameters = []
    for row in table_rows:
        values = [row.get(column) for column in columns]
        parameters.append(pytest.param(*values, id=row.get("case")))
    return pytest.mark.parametrize(columns, [*parameters, *long_rows])


def row_cases(test_file: str, table: str, kind: type = SimpleNamespace):
    """Parametrize a test's argument `row` by a table of many columns: a row is an object of this
    kind, which has the defaults. One that is `slow` is marked so."""
    parameters = []
    for columns in rows(test_file, table):
        arguments = {name: value for name, value in columns.items() if name != "slow"}
        marks = [pytest.mark.slow] if columns.get("slow") else []
        parameters.append(pytest.param(kind(**arguments), id=columns["case"], marks=marks))
    return pytest.mark.parametrize("row", parameters)


def long_text(parts: list[str | list]) -> str:
    """The text of its parts, of which one such as [a, 5] stands so many times."""
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts)


def lacking(names: list[str], message: str) -> list[str]:
    """The facts of a row's column `names` that a message does not state: a file and its line, a
    key, a number, a command. Its other words are free. Each must stand there whole (`max_step` is
    not in `max_steps`, nor 1 in 12), and by itself: a key that is repeated in `names`, or is a part
    of another fact, has to stand there twice."""
    assert names, "a message without a fact would always pass"
    absent = []
    for name in names:
        before = r"(?<!\w)" if name[0].isalnum() else ""
        after = r"(?!\w)" if name[-1].isalnum() else ""
        message, count = re.subn(before + re.escape(name) + after, "·", message, count=1)
        if not count:
            absent.append(name)
    return absent
