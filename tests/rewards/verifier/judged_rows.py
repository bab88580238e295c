"""The judged answers of the tables in this folder."""

from pathlib import Path
from typing import NamedTuple

TABLES = ("cases.tsv", "second_mile.tsv", "blind.tsv", "models.tsv", "written.tsv")


class Row(NamedTuple):
    """An answer, and how it is to be judged.

    `expected` is right, wrong, none (no gold can be read), or unread for a right answer that the
    contract does not read.
    """

    expected: str
    gold: str
    completion: str
    question: str | None
    why: str

    @property
    def is_correct(self) -> bool:
        """Whether a teacher would call the answer right."""
        return self.expected in ("right", "unread")


def judged_rows(table: str) -> list[Row]:
    """Read the rows of a table."""
    rows = []
    for line in Path(__file__).with_name(table).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            expected, gold, completion, question, why = line.replace("⏎", "\n").split("\t")
            rows.append(Row(expected, gold, completion, question or None, why))
    return rows
