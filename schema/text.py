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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML, YAMLError, events

from console.faults import Fault, Place, RecipeError, item, nearest_or_all
from schema.values import MAY_BE_NOTHING

LARGEST = 64 * 1024  # bytes; the largest recipe here has 2,000
DEEPEST = 12  # levels
# What the parser's words mean most often.
INDENTATION = ": the keys of a section begin in the same column, and each is `key: value`"

REQUIRED = ("model", "data", "rewards", "grpo")
# bases, each the base of the one before it: what a reader can still follow from file to file
MOST = 4
# A file of the recipe's own folder. At most 60 letters, whose bytes a file's name can hold in any
# alphabet.
NAME = r"[^/\\\x00-\x1f\x7f-\x9f]{1,60}\.yaml"
OF_THE_RECIPE = ("output_dir",)  # keys that no base gives: two recipes on one base are two runs


class Unreadable(ValueError):
    """The text is not YAML, or more than a recipe may use. `line` counts from 1; 0 where it is
    about no line."""

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
    """The mapping in a recipe that a run saved, which its base and our defaults make longer than a
    written one.

    Raises:
        Unreadable: it is not there, or holds none.
    """
    try:
        value = value_of(text_of(file, 4 * LARGEST))
    except FileNotFoundError:
        raise Unreadable("it is not there") from None
    if not isinstance(value, dict):
        raise Unreadable("it holds no recipe")
    _drop_order(value)
    return value


def _drop_order(values: dict):
    """Remove `data.order: shuffled`, which runs of earlier versions saved and nothing reads."""
    data = values.get("data")
    if isinstance(data, dict) and data.get("order") == "shuffled":
        del data["order"]


def value_of(text: str) -> Any:
    """The value of a text. It raises as `read` does."""
    return read(text)[0]


def read(text: str) -> tuple[Any, list[tuple[tuple, int]]]:
    """The value of a text; and every key and every `item` of a list, with the keys above it, and
    its line, in the order of the text.

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
        problem = getattr(error, "problem", None) or str(error)
        if mark and line < len(lines) and "\t" in lines[line]:
            problem = "a tab; YAML is indented with spaces"
        hint = INDENTATION if problem.startswith(("expected <block end>", "mapping values")) else ""
        raise Unreadable(f"not valid YAML: {problem}{hint}", line + 1) from None
    except ValueError as error:  # a number or a date that Python cannot hold
        raise Unreadable(f"not valid YAML: {error}") from None
    _require_plain_values(value)
    return value, [] if root is None else _keys(root, (), yaml.constructor.construct_document)


def _require_plain_values(value: Any):
    if isinstance(value, int) and abs(value) > 1e300:
        raise Unreadable("not valid YAML: a number of hundreds of digits")
    if isinstance(value, dict):
        value = list(value.values())
    for item_value in value if isinstance(value, list) else []:
        _require_plain_values(item_value)


def _keys(node, above: tuple, construct: Callable) -> list[tuple[tuple, int]]:
    found = []
    items: dict[tuple, Any] = {}
    for each in node.value if node.id == "sequence" else []:
        items.setdefault(item(construct(each)), each)
    for key, each in items.items():
        found += [((*above, key), each.start_mark.line + 1), *_keys(each, (*above, key), construct)]
    for key, value in node.value if node.id == "mapping" else []:
        here, line = (*above, key.value), key.start_mark.line + 1
        if key.tag != "tag:yaml.org,2002:str":
            raise Unreadable(
                f"the key {key.value} is no name: YAML reads it as a value; put it in quotes", line
            )
        found += [(here, line), *_keys(value, here, construct)]
    return found


def _require_plain(text: str):
    documents = 0
    expects_key: list[bool | None] = []  # of each level: whether a key is next, None in a list
    for event in YAML(typ="safe", pure=True).parse(text):
        line = event.start_mark.line + 1
        anchor, tag, value = (getattr(event, name, None) for name in ("anchor", "tag", "value"))
        begins = isinstance(event, events.MappingStartEvent | events.SequenceStartEvent)
        if isinstance(event, events.DocumentStartEvent):
            documents += 1
            if documents > 1 or event.version or event.tags:
                raise Unreadable("a recipe is one YAML document, without directives", line)
        if re.search("[\ud800-\udfff]", value or ""):
            raise Unreadable(r"half of a character (\ud800 to \udfff): write all of it", line)
        if isinstance(event, events.AliasEvent) or anchor or value == "<<":
            message = "an alias, an anchor or a merge (*, &, <<): write the value out"
            raise Unreadable(f"{message}, since people read recipes", line)
        if isinstance(event, events.NodeEvent):
            if tag:
                raise Unreadable(f"a tag ({tag}): a recipe has plain values only", line)
            if begins and expects_key and expects_key[-1]:
                raise Unreadable("a key that is itself a list or a mapping", line)
            if expects_key and expects_key[-1] is not None:
                expects_key[-1] = not expects_key[-1]
        if begins:
            expects_key.append(True if isinstance(event, events.MappingStartEvent) else None)
            if len(expects_key) > DEEPEST:
                raise Unreadable(f"more than {DEEPEST} levels deep", line)
        elif isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
            expects_key.pop()


class Text(NamedTuple):
    """What the files say. `files`: that were read, the recipe's own first, as `Place.source` names
    them."""

    values: dict[str, Any]
    places: dict[tuple, Place]
    faults: list[Fault]
    files: list[str]


def read_with_bases(path: Path) -> Text:
    """Read a recipe's file and those it builds on.

    Raises:
        FileNotFoundError: there is no such recipe.
        RecipeError: a file is not a mapping in YAML, or a base is not there, not in the folder, or
            one too many.
    """
    texts, paths = [_read(path)], [path]
    while "base" in texts[-1].values:
        texts[-1], below = _without_base(texts[-1], paths)
        texts.append(_read(below))
        paths.append(below)
    whole = texts.pop()
    while texts:
        whole = _on(whole, texts.pop())
    return whole


def _read(path: Path) -> Text:
    """One file, with a fault for each key that is set twice in it."""
    try:
        values, lines = read(text_of(path))
    except Unreadable as error:
        raise RecipeError([Fault(Place(str(path), error.line), str(error))]) from None
    if not isinstance(values, dict):
        message = f"a recipe is a mapping with the sections {', '.join(REQUIRED)}"
        raise RecipeError([Fault(Place(str(path)), message)])
    _drop_order(values)
    places: dict[tuple, Place] = {}
    faults = []
    for keys, line in lines:
        if keys in places:
            name = ".".join(each for each in keys if isinstance(each, str))
            message = f"{name} is set again, first in line {places[keys].line}: keep one of them"
            faults.append(Fault(Place(str(path), line), message))
        places.setdefault(keys, Place(str(path), line))
    return Text(values, places, faults, [str(path)])


def _without_base(text: Text, paths: list[Path]) -> tuple[Text, Path]:
    """The text without its `base`, and the file that this names.

    Args:
        paths: the recipe and its bases so far; the last is the text's own.
    """
    path, place, name = paths[-1], text.places["base",], text.values["base"]
    folder = path.parent
    below = folder / str(name)
    wrong = None
    if next(iter(text.values)) != "base":
        wrong = "write it first, since the base is read first"
    elif not isinstance(name, str) or not re.fullmatch(NAME, name):
        wrong = f"expected a file of this folder, such as tiny-arithmetic.yaml, got {name!r:.80}"
    elif below in paths:
        circle = " → ".join(each.name for each in [*paths[paths.index(below) :], below])
        wrong = f"a circle, {circle}: one of them must stand alone"
    elif Path(os.path.realpath(below)).parent != Path(os.path.realpath(folder)):
        wrong = f"{below} leads out of its folder: copy the file"
    elif not below.exists():
        others = sorted({each.name for each in folder.glob("*.yaml")} - {path.name})
        wrong = f"there is no file {below}{nearest_or_all(name, others) if others else ''}"
    elif len(paths) > MOST:
        wrong = f"more than {MOST} bases, each on the next: write out what one of them says"
    if wrong:
        raise RecipeError([Fault(place, f"base: {wrong}")])
    values = {key: value for key, value in text.values.items() if key != "base"}
    places = {keys: each for keys, each in text.places.items() if keys != ("base",)}
    return text._replace(values=values, places=places), below


def _on(base: Text, own: Text) -> Text:
    """A text in place of the base's."""
    below = {key: value for key, value in base.values.items() if key not in OF_THE_RECIPE}
    replaced, removed = {(key,) for key in OF_THE_RECIPE}, set()
    values = _merged(below, own.values, (), replaced, removed)
    places = {
        keys: place
        for keys, place in base.places.items()
        if not any(keys[:depth] in replaced for depth in range(1, len(keys) + 1))
    }
    places |= {keys: place for keys, place in own.places.items() if keys not in removed}
    return Text(values, places, own.faults + base.faults, own.files + base.files)


def _merged(base: dict, own: dict, above: tuple, replaced: set[tuple], removed: set[tuple]) -> dict:
    """A mapping's values on its base's; `replaced` and `removed` collect the keys that no longer
    stand where the base, or where the recipe, has them."""
    merged = dict(base)
    for key, value in own.items():
        keys = (*above, key)
        by_key = len(keys) == 1 or (len(keys) == 2 and keys[0] == "rewards")
        if by_key and isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merged(base[key], value, keys, replaced, removed)
            continue
        replaced.add(keys)
        merged[key] = value
        if value is None and key in base and not (above and key in MAY_BE_NOTHING):
            removed.add(keys)
            del merged[key]
    return merged
