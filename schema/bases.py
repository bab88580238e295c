"""A recipe's file and those it builds on, as one. `base: other.yaml`, its first key, names a recipe in the same folder
that is read first. The recipe's own keys then replace the base's: section by section, key by key, and in `rewards` by
name and then by key. A list or any other value replaces what the base has there.

`null` removes what the base has: a section, a reward, or a key, which then has its default. Two keys have `null` as a
value of their own (`schema.values.MAY_BE_NOTHING`), and keep it.
"""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from schema.faults import Fault, Place, RecipeError, nearest_or_all
from schema.strict_yaml import Unreadable, read, text_of
from schema.values import MAY_BE_NOTHING

REQUIRED = ("model", "data", "rewards", "grpo")
MOST = 4  # bases, each the base of the one before it: what a reader can still follow from file to file
# A file of the recipe's own folder. At most 60 letters, whose bytes a file's name can hold in any alphabet.
NAME = r"[^/\\\x00-\x1f\x7f-\x9f]{1,60}\.yaml"
OF_THE_RECIPE = ("output_dir",)  # keys that no base gives: two recipes on one base are two runs


class Text(NamedTuple):
    """What the files say. `files`: that were read, the recipe's own first, as `Place.source` names them."""

    values: dict[str, Any]
    places: dict[tuple, Place]
    faults: list[Fault]
    files: list[str]


def read_with_bases(path: Path) -> Text:
    """Read a recipe's file and those it builds on.

    Raises:
        FileNotFoundError: there is no such recipe.
        RecipeError: a file is not a mapping in YAML, or a base is not there, not in the folder, or one too many.
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
    places: dict[tuple, Place] = {}
    faults = []
    for keys, line in lines:
        if keys in places:
            message = f"{'.'.join(keys)} is set again, first in line {places[keys].line}: keep one of them"
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
    places = {keys: place for keys, place in base.places.items() if not _within(keys, replaced)}
    places |= {keys: place for keys, place in own.places.items() if keys not in removed}
    return Text(values, places, own.faults + base.faults, own.files + base.files)


def _merged(base: dict, own: dict, above: tuple, replaced: set[tuple], removed: set[tuple]) -> dict:
    """A mapping's values on its base's; `replaced` and `removed` collect the keys that no longer stand
    where the base, or where the recipe, has them."""
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


def _within(keys: tuple, sections: set[tuple]) -> bool:
    return any(keys[: i + 1] in sections for i in range(len(keys)))
