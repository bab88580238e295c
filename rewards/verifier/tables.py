"""The word lists of `tables/`: text files, a row on each line, `#` before a comment."""

from collections import defaultdict
from importlib.resources import files


def rows(name: str) -> list[list[str]]:
    """Return the rows of a table, each as its columns, which tabs separate."""
    text = files(__package__).joinpath("tables", name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and line[0] != "#"]
    return [line.split("\t") for line in lines]


def patterns(name: str) -> list[list[str]]:
    """Return the rows of a table of regular expressions, in which `«NAME»` stands for the pattern
    that an earlier row names so, and `␣` for a space at the end of a row."""
    named = {"␣": " "}
    filled = []
    for row in rows(name):
        for placeholder, pattern in named.items():
            row = [column.replace(placeholder, pattern) for column in row]
        if row[0].startswith("«"):
            named[row[0]] = row[1]
        else:
            filled.append(row)
    return filled


def word_lists(name: str) -> dict[str, set[str]]:
    """Return the words of each list of a table; a long list has several rows."""
    lists = defaultdict(set)
    for heading, words in rows(name):
        lists[heading].update(words.split())
    return lists


def alternatives(name: str) -> str:
    """Return the patterns in the last column of a table as one."""
    return "|".join(row[-1] for row in rows(name))
