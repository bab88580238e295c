"""YAML as a recipe may use it: a page of text with mappings, lists and plain values. Everything else that YAML offers
is refused, since none of it is needed and all of it has been used to attack: aliases that multiply, tags that create
objects, nesting that overflows the stack, megabytes of text."""

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

LARGEST = 64 * 1024  # bytes; the largest recipe here has 2,000
DEEPEST = 12  # levels

Place = tuple[str, ...]


class Unreadable(ValueError):
    """The text is not YAML, or more than a recipe may use. `line` counts from 1; 0 where it is about no line."""

    def __init__(self, message: str, line: int = 0):
        super().__init__(message)
        self.line = line


def text_of(path: Path, most: int = LARGEST) -> str:
    """The text of a file.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it is not a text file of a recipe's size.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    if not path.is_file():
        raise Unreadable("is not a file")
    if (size := path.stat().st_size) > most:
        raise Unreadable(f"has {size:,} bytes, and a recipe is a page: {most:,} at most")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise Unreadable("not UTF-8: save the file in that encoding", line) from None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None


def saved(file: Path) -> dict:
    """The mapping in a recipe that a run saved, which its base and our defaults make longer than a written one.

    Raises:
        Unreadable: it is not there, or holds none.
    """
    try:
        value = value_of(text_of(file, 4 * LARGEST))
    except FileNotFoundError:
        raise Unreadable("it is not there") from None
    if not isinstance(value, dict):
        raise Unreadable("it holds no recipe")
    return value


def value_of(text: str) -> Any:
    """The value of a text.

    Raises:
        Unreadable: see there.
    """
    return read(text)[0]


def read(text: str) -> tuple[Any, list[tuple[Place, int]]]:
    """The value of a text; and every key, with those above it, and its line, in the order of the text.

    Raises:
        Unreadable: see there.
    """
    try:
        _require_plain(text)
        yaml = YAML(typ="safe", pure=True)
        yaml.allow_duplicate_keys = True  # schema/recipe.py reports all of them, not only the first
        root = yaml.compose(text)
        value = None if root is None else yaml.constructor.construct_document(root)
        str(value)  # which fails for a number of more digits than Python writes
    except Unreadable:
        raise
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line if mark else -1
        lines = text.splitlines()
        tab = mark and line < len(lines) and "\t" in lines[line]
        problem = "a tab; YAML is indented with spaces" if tab else getattr(error, "problem", None) or str(error)
        raise Unreadable(f"not valid YAML: {problem}", line + 1) from None
    except ValueError as error:  # a number or a date that Python cannot hold
        raise Unreadable(f"not valid YAML: {error}") from None
    _require_plain_values(value)
    return value, [] if root is None else _keys(root, ())


def _require_plain_values(value: Any):
    if isinstance(value, int) and abs(value) > 1e300:
        raise Unreadable("not valid YAML: a number of hundreds of digits")
    for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else []:
        _require_plain_values(each)
    for key in value if isinstance(value, dict) else []:
        if not isinstance(key, str):
            raise Unreadable(f"the key {key} is no name")


def _keys(node, above: Place) -> list[tuple[Place, int]]:
    found = []
    for child in node.value if node.id == "sequence" else []:
        found += _keys(child, above)
    for key, value in node.value if node.id == "mapping" else []:
        here = (*above, key.value)
        found += [(here, key.start_mark.line + 1), *_keys(value, here)]
    return found


def _require_plain(text: str):
    depth, documents, expects_key = 0, 0, []
    for event in YAML(typ="safe", pure=True).parse(text):
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1 or event.version or event.tags:
                raise Unreadable("a recipe is one YAML document, without directives", line)
        if re.search("[\ud800-\udfff]", getattr(event, "value", None) or ""):
            raise Unreadable(r"half of a character (\ud800 to \udfff): write all of it", line)
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) or getattr(event, "value", "") == "<<":
            raise Unreadable(
                "an alias, an anchor or a merge (*, &, <<): write the value out, since people read recipes", line
            )
        if isinstance(event, NodeEvent) and getattr(event, "tag", None):
            raise Unreadable(f"a tag ({event.tag}): a recipe has plain values only", line)
        if isinstance(event, NodeEvent):
            if expects_key and expects_key[-1] is True and isinstance(event, MappingStartEvent | SequenceStartEvent):
                raise Unreadable("a key that is itself a list or a mapping", line)
            if expects_key and expects_key[-1] is not None:
                expects_key[-1] = not expects_key[-1]
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
            expects_key.append(True if isinstance(event, MappingStartEvent) else None)
            if depth > DEEPEST:
                raise Unreadable(f"more than {DEEPEST} levels deep", line)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            depth -= 1
            expects_key.pop()
