"""A recipe's text: strict YAML, and the files that it builds on, as one.

Of YAML a recipe may use mappings, lists and plain values. Everything else that YAML offers is
refused, since none of it is needed and all of it has been used to attack: aliases that multiply,
tags that create objects, nesting that overflows the stack, megabytes of text.

`base: other.yaml`, its first key, names a recipe in the same folder that is read first. The
recipe's own keys then replace the base's: section by section, key by key, and in `rewards` by name
and then by key. A list or any other value replaces what the base has there. `null` removes what the
base has: a section, a reward, or a key, which then has its default. Two keys have `null` as a value
of their own (`schema.values.MAY_BE_NOTHING`), and keep it.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML, YAMLError, events
from ruamel.yaml.composer import Composer
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from console.faults import Fault, Place, RecipeError, dotted, item, nearest_or_all
from schema.values import MAY_BE_NOTHING

LARGEST = 64 * 1024  # bytes; the largest recipe here has 2,000
DEEPEST = 12  # levels
# What the parser's words mean most often.
INDENTATION = ": the keys of a section begin in the same column, and each is `key: value`"

REQUIRED = ("model", "data", "rewards", "grpo")
MOST_BASES = 4  # a longer chain of files nobody can follow
# A file of the same folder. A file system can store the bytes of 60 letters in any alphabet.
NAME = r"[^/\\\x00-\x1f\x7f-\x9f]{1,60}\.yaml"
NOT_INHERITED = ("output_dir",)  # two recipes on one base are two runs


class Unreadable(ValueError):
    """The text is not YAML, or uses more of YAML than a recipe may. `line` counts from 1, and is 0
    for a message about no single line."""

    def __init__(self, message: str, line: int = 0):
        super().__init__(message)
        self.line = line


def text_of(path: Path, limit: int = LARGEST) -> str:
    """The text of a file.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it is not a text file of a recipe's size.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    if not path.is_file():
        raise Unreadable("is not a file")
    size = path.stat().st_size
    if size > limit:
        raise Unreadable(f"has {size:,} bytes, and a recipe is a page: {limit:,} at most")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise Unreadable("not UTF-8: save the file in that encoding", line) from None


def saved(file: Path) -> dict:
    """The mapping in a recipe that a run saved. Its base and our defaults make it longer than a
    recipe that somebody wrote.

    Raises:
        Unreadable: the file does not exist, or holds no mapping.
    """
    try:
        value = value_of(text_of(file, 4 * LARGEST))
    except FileNotFoundError:
        raise Unreadable("it is not there") from None
    if not isinstance(value, dict):
        raise Unreadable("it holds no recipe")
    return value


def value_of(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        Unreadable: as `read` does, or a key stands twice in a mapping.
    """
    value, lines = read(text)
    counts = Counter(keys for keys, _ in lines)
    for keys, line in lines:
        if counts[keys] > 1:
            raise Unreadable(f"the key {keys[-1]} stands twice: keep one of them", line)
    return value


def read(text: str) -> tuple[Any, list[tuple[tuple, int]]]:
    """The value of a YAML text, and the line of every key and of every `item` of a list, in the
    order of the text. A key stands in a tuple after the keys above it.

    Raises:
        Unreadable: the text is not YAML, or uses more of YAML than a recipe may.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True  # schema/recipe.py reports all of them, not only the first
    yaml.Composer = PlainComposer
    try:
        if re.search("(?m)^%", text):
            raise Unreadable("a recipe is one YAML document, without directives", 1)
        root = yaml.compose(text)
        if root is None:
            return None, []
        value = yaml.constructor.construct_document(root)
        str(value)  # fails for a number with more digits than Python writes
    except Unreadable:
        raise
    except YAMLError as error:
        raise _syntax_error(error, text) from None
    except ValueError as error:  # a number or a date that Python cannot hold
        raise Unreadable(f"not valid YAML: {error}") from None
    return value, _keys(root, (), yaml.constructor.construct_document)


def _syntax_error(error: YAMLError, text: str) -> Unreadable:
    mark = getattr(error, "problem_mark", None)
    line = mark.line if mark else -1
    lines = text.splitlines()
    problem = getattr(error, "problem", None) or str(error)
    if mark and line < len(lines) and "\t" in lines[line]:
        problem = "a tab; YAML is indented with spaces"
    if "another document" in problem:
        problem = "a recipe is one YAML document"
    if problem.startswith(("expected <block end>", "mapping values")):
        problem += INDENTATION
    return Unreadable(f"not valid YAML: {problem}", line + 1)


class PlainComposer(Composer):
    """Composes the tree of a YAML text, and refuses what a recipe may not use."""

    def compose_node(self, parent: Node | None, index: Any) -> Node:
        is_key = isinstance(parent, MappingNode) and index is None
        _require_plain(self.parser.peek_event(), is_key, self.depth)
        return super().compose_node(parent, index)


def _require_plain(event: events.NodeEvent, is_key: bool, depth: int):
    """Refuse what a recipe may not use of YAML."""
    line = event.start_mark.line + 1
    value = getattr(event, "value", None)
    if isinstance(event, events.AliasEvent) or event.anchor or value == "<<":
        message = "an alias, an anchor or a merge (*, &, <<): write the value out"
        raise Unreadable(f"{message}, since people read recipes", line)
    if event.tag:
        raise Unreadable(f"a tag ({event.tag}): a recipe has plain values only", line)
    if value is None and is_key:
        raise Unreadable("a key that is itself a list or a mapping", line)
    if value is None and depth >= DEEPEST:
        raise Unreadable(f"more than {DEEPEST} levels deep", line)
    if re.search("[\ud800-\udfff]", value or ""):
        raise Unreadable(r"half of a character (\ud800 to \udfff): write all of it", line)


def _keys(node: Node, above: tuple, construct: Callable) -> list[tuple[tuple, int]]:
    """The keys below a YAML node and their lines, see `read`. An item that stands in a list twice
    counts once."""
    lines = []
    if isinstance(node, SequenceNode):
        items: dict[tuple, Node] = {}
        for child in node.value:
            items.setdefault(item(construct(child)), child)
        for key, child in items.items():
            keys = (*above, key)
            lines.append((keys, child.start_mark.line + 1))
            lines += _keys(child, keys, construct)
    elif isinstance(node, MappingNode):
        for key, child in node.value:
            keys = (*above, key.value)
            line = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                message = "is no name: YAML reads it as a value; put it in quotes"
                raise Unreadable(f"the key {key.value} {message}", line)
            lines.append((keys, line))
            lines += _keys(child, keys, construct)
    return lines


class Text(NamedTuple):
    """The content of a recipe's files. `files`: their names as in `Place.source`, the recipe's own
    file first."""

    values: dict[str, Any]
    places: dict[tuple, Place]
    faults: list[Fault]
    files: list[str]


def read_with_bases(path: Path, depth: int = 1) -> Text:
    """Read a recipe's file, the `depth`th of its files, and the bases on which it builds.

    Raises:
        FileNotFoundError: there is no such recipe.
        RecipeError: a file is not a mapping in YAML, or a base does not exist, is not in the same
            folder, or is one too many.
    """
    text = _read(path)
    if "base" not in text.values:
        return text
    base_path = _take_base(text, path, depth)
    return _on_base(read_with_bases(base_path, depth + 1), text)


def _read(path: Path) -> Text:
    """Read one file, with a fault for each key that it sets twice."""
    try:
        values, lines = read(text_of(path))
    except Unreadable as error:
        raise RecipeError([Fault(Place(str(path), error.line), str(error))]) from None
    if not isinstance(values, dict):
        message = f"a recipe is a mapping with the sections {', '.join(REQUIRED)}"
        raise RecipeError([Fault(Place(str(path)), message)])
    places: dict[tuple, Place] = {}
    faults = []
    for keys, line in lines:
        if keys in places:
            message = f"is set again, first in line {places[keys].line}: keep one of them"
            faults.append(Fault(Place(str(path), line), f"{dotted(keys)} {message}"))
        places.setdefault(keys, Place(str(path), line))
    return Text(values, places, faults, [str(path)])


def _take_base(text: Text, path: Path, depth: int) -> Path:
    """Remove the key `base` from a file's text, and return the path of the file that it names."""
    name = text.values["base"]
    base_path = path.parent / str(name)
    short = str(name).removesuffix(".yml")
    is_short = isinstance(name, str) and re.fullmatch(NAME, f"{short}.yaml")
    refusal = None
    if next(iter(text.values)) != "base":
        refusal = "write it first, since the base is read first"
    elif is_short and (path.parent / f"{short}.yaml").is_file():
        refusal = f"write {short}.yaml, the file of this folder"
    elif not isinstance(name, str) or not re.fullmatch(NAME, name):
        refusal = f"expected a file of this folder, such as tiny-arithmetic.yaml, got {name!r:.80}"
    elif base_path.exists() and base_path.samefile(path):
        refusal = f"{name} names itself: name the recipe that it builds on, or leave base out"
    elif Path(os.path.realpath(base_path)).parent != Path(os.path.realpath(path.parent)):
        refusal = f"{base_path} leads out of its folder: copy the file"
    elif not base_path.exists():
        recipes = sorted({file.name for file in path.parent.glob("*.yaml")} - {path.name})
        hint = nearest_or_all(name, recipes) if recipes else ""
        refusal = f"there is no file {base_path}{hint}"
    elif depth > MOST_BASES:
        refusal = f"more than {MOST_BASES} bases, each on the next: write out what one of them says"
    if refusal:
        raise RecipeError([Fault(text.places["base",], f"base: {refusal}")])
    del text.values["base"]
    del text.places["base",]
    return base_path


def _on_base(base: Text, text: Text) -> Text:
    """A text whose values replace its base's values."""
    for key in NOT_INHERITED:
        base.values.pop(key, None)
        base.places.pop((key,), None)
    values = _merged(base.values, text.values, ())
    places = base.places | text.places
    return Text(values, places, text.faults + base.faults, text.files + base.files)


def _merged(base: dict, values: dict, above: tuple) -> dict:
    """The values of a mapping below the keys `above`, together with those of its base that they do
    not replace."""
    merged = dict(base)
    for key, value in values.items():
        is_section = not above or above == ("rewards",)
        if is_section and isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merged(base[key], value, (*above, key))
        elif value is None and key in base and not (above and key in MAY_BE_NOTHING):
            del merged[key]
        else:
            merged[key] = value
    return merged
