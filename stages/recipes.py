"""Lists the recipes, each described by the comment at its top; with --keys, the page of all keys, docs/recipe.md."""

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, fields
from pathlib import Path

from schema import configs, refused_keys, values
from schema.names import OUR_REWARDS, REWARD_KEYS, reward_function
from schema.sections import OWN_SECTIONS, OwnSolutions
from schema.stages import SECTIONS
from schema.terminal import say
from schema.text import Unreadable, text_of
from stages.cli import mistakes_reported


def main(folder: Path = Path("recipes")):
    for path in sorted(folder.glob("*.yaml")):
        try:
            what, told = header(text_of(path))
        except (FileNotFoundError, Unreadable) as error:  # a link that an editor leaves beside a file, say
            what, told = f"cannot be read ({error})", {}
        say(f"{path.stem}\n  {what or 'no description'}")
        for word, line in told.items():
            say(f"  {word:<8} {line}")
        say()
    say("next: make check RECIPE=name, or make grpo RECIPE=name")


def header(text: str) -> tuple[str, dict[str, str]]:
    """A recipe's description in the comment at its top, and what that says after Run, Needs and Reaches."""
    lines = re.match(r"(?:#.*\n)*", text)[0].splitlines()
    what, told = [], {}
    for line in lines:
        line = line.lstrip("# ").strip()
        if match := re.match(r"(Run|Needs|Reaches)\s+(.*)", line):
            told[match[1].lower()] = match[2]
        else:
            what.append(line)
    return " ".join(what), told


TOP = {
    "base": ("the file of a recipe in the same folder, whose keys this one need not repeat", "such as `base.yaml`"),
    "seed": ("of the data's order, the sampling and the adapter", "`42`"),
    "output_dir": ("where its runs are", "`outputs/<recipe>`"),
    "rounds": ("into how many GRPO is parted; each begins with its policy as the reference", "such as `3`"),
    "algorithm": ("what takes the section `grpo` in place of GRPO", "such as `rloo`"),
}


def reference() -> Iterator[str]:
    """The lines of docs/recipe.md: every key, from the classes, rules and signatures that a recipe is read with."""
    yield "# What may a recipe say?\n\nEvery key. Made by `python -m stages.recipes --keys`; a test compares the two."
    rules = values.RULES["recipe"] | {"base": "the name of a file"}
    yield from _table("At the top", "", ((key, *told, rules[key]) for key, told in TOP.items()))
    for section, kind in {**OWN_SECTIONS, "data.own_solutions": OwnSolutions}.items():
        about, *of_keys = re.split(r"^`(?=\w+`: )", inspect.getdoc(kind), flags=re.M)
        told = {key: " ".join(text.split()) for key, text in (each.split("`: ", 1) for each in of_keys)}
        rules = values.OWN_SOLUTIONS if kind is OwnSolutions else values.RULES[section]
        yield from _table(f"`{section}`", about, (_row(each, told[each.name], rules) for each in fields(kind)))
    yield "\n## `rewards`\n\nEach by its name, with its weight and arguments ([rewards.md](rewards.md)):\n"
    yield from (f"- `{key}`: {rule}" for key, rule in REWARD_KEYS.items())
    yield from (f"- `{name}: {{{_arguments(reward_function(name))}}}`" for name in OUR_REWARDS)
    yield "\n## The libraries' sections\n\nTheir keys are fields of these; `make check` refuses some, and says why.\n"
    for section, path in configs.SECTIONS.items():
        ours = SECTIONS[section].defaults if section in SECTIONS else {}
        ours = {key: value for key, value in ours.items() if key not in refused_keys.RESERVED[section]}
        yield f"- `{section}`: `{path}`" + "".join(f"; `{key}` is `{value}` by default" for key, value in ours.items())


def _table(title: str, about: str, rows: Iterable[tuple]) -> Iterator[str]:
    yield "\n".join(["", f"## {title}", "", *([about.strip(), ""] if about else [])])
    yield "| key | what | default | values |\n|---|---|---|---|"
    yield from (f"| `{key}` | {what} | {default} | {rule} |" for key, what, default, rule in rows)


def _row(key: Field, told: str, rules: dict) -> tuple:
    what, _, example = told.partition(" Example: ")
    default = f"such as {example}" if example else f"`{str(key.default).lower()}`"
    rule = str(rules.get(key.name, values.SWITCH if isinstance(key.default, bool) else ""))
    return key.name, what.rstrip("."), default, re.sub("^a (whole )?number ", "", rule)


def _arguments(reward: Callable) -> str:
    own = [each for each in inspect.signature(reward).parameters.values() if each.kind is each.KEYWORD_ONLY]
    own = [each for each in own if each.name not in ("log_metric", "steps_before")]
    return ", ".join(f"{each.name}: {'…' if each.default is each.empty else json.dumps(each.default)}" for each in own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.recipes", description=__doc__)
    parser.add_argument("--keys", action="store_true", help="print every key of a recipe, as docs/recipe.md")
    with mistakes_reported():
        if parser.parse_args().keys:
            print(*reference(), sep="\n")
        else:
            main()
