"""Prints docs/recipe.md, every key of a recipe, from the classes, rules and signatures that a
recipe is read with:

python -m tests.keys > docs/recipe.md
"""

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, fields
from importlib.metadata import version

from pydantic_core.core_schema import CoreSchema, any_schema

import rewards
from schema import configs, refused_keys, values
from schema.names import REWARD_KEYS
from schema.sections import OWN_SECTIONS, RejectionSampling
from schema.stages import STAGES
from schema.value_types import words_of

# The page of each section's class, in its library's documentation.
DOCUMENTED = {
    "adapter": "package_reference/lora#peft.LoraConfig",
    "quantization": "main_classes/quantization#transformers.BitsAndBytesConfig",
    "sft": "sft_trainer#trl.SFTConfig",
    "grpo": "grpo_trainer#trl.GRPOConfig",
    "distill": "distillation_trainer#trl.DistillationConfig",
}
ON_A_BASE = """
## On a base

- A key in your file replaces the same key of the base. A list, or a mapping inside a section, is
  replaced as a whole.
- `null` drops a section, a reward or a key; a dropped key goes back to its default. For
  `max_length` and `grpo.vllm_importance_sampling_clip_max`, `null` means no limit.
- Bases can be chained, four deep. `make check RECIPE=mine SHOW=1` shows each value and where it
  comes from.
"""
BASE = "the file of a recipe in the same folder, whose keys this one need not repeat"
LINES = {"subsequent_indent": "  ", "break_on_hyphens": False, "break_long_words": False}
GIVEN_BY_US = ("log_metric", "said", "steps_before")  # to a reward
TOP = {
    "base": (BASE, "", "base.yaml"),
    "seed": ("of the data's order, the sampling and the adapter", "42", ""),
    "output_dir": ("where its runs are", "outputs/<recipe>", ""),
    "teacher": (
        "the folder of a run, or another model's folder or Hub id, that"
        " [distillation](choosing.md#how-do-i-learn-from-a-teacher) learns from",
        "",
        "outputs/tiny-arithmetic/grpo",
    ),
    "tools": (
        "what the policy may [call](rewards.md#may-it-call-tools)",
        "",
        "[calculator]",
    ),
}


def reference() -> Iterator[str]:
    """The lines of the page."""
    yield "# What may a recipe say?\n"
    yield "Every key. In brackets stands its default; where it has none, an example behind a colon."
    yield "Made by `python -m tests.keys`; a test compares the two."
    kinds = values.TYPES["recipe"] | {"base": any_schema()}
    rows = [(key, *TOP[key], "" if TOP[key][2] else _values(kinds[key])) for key in TOP]
    yield from _list("At the top", "", rows)
    yield ON_A_BASE.rstrip("\n")
    for section, kind in {**OWN_SECTIONS, "data.rejection_sampling": RejectionSampling}.items():
        about, *of_keys = re.split(r"^`(?=\w+`: )", inspect.getdoc(kind), flags=re.M)
        texts = dict(text.split("`: ", 1) for text in of_keys)
        kinds = values.REJECTION_SAMPLING if kind is RejectionSampling else values.TYPES[section]
        rows = [_row(key, " ".join(texts[key.name].split()), kinds) for key in fields(kind)]
        yield from _list(f"`{section}`", about, rows)
    arguments = "its weight and arguments ([rewards.md](rewards.md))"
    yield f"\n## `rewards`\n\nEach by its name, with {arguments}:\n"
    for key, kind in REWARD_KEYS.items():
        yield f"- `{key}`: {_words(kind) or 'the text between two steps'}"
    for name in rewards.__all__:
        line = f"- `{name}: {{{_arguments(getattr(rewards, name))}}}`"
        yield textwrap.fill(line, 120, **LINES)
    yield "- `org/model: {}`: a reward model by its Hub id or folder, with its weight alone"
    yield "\n## The libraries' sections\n"
    yield "Their keys are fields of these classes; `make check` refuses some.\n"
    yield "| section | its keys | default here |\n|---|---|---|"
    for section, path in configs.SECTIONS.items():
        defaults = STAGES[section].defaults if section in STAGES else {}
        package, *_, name = path.split(".")
        address = _address(package, DOCUMENTED[section])
        values_here = [
            f"`{key}: {json.dumps(value)}`"
            for key, value in defaults.items()
            if key not in refused_keys.reserved(section)
        ]
        yield f"| `{section}` | [`{package}.{name}`]({address}) | {', '.join(values_here)} |"
    address = _address("accelerate", "package_reference/cli#accelerate-config")
    yield "\n`ACCELERATE=ddp` names a file of `accelerate_configs/`, with the fields of"
    yield f"[accelerate's config]({address})."


def _address(package: str, page: str) -> str:
    """A page of a library's documentation, of the version that is installed."""
    major, minor, _ = version(package).split(".", 2)
    return f"https://huggingface.co/docs/{package}/v{major}.{minor}.0/{page}"


def _list(title: str, about: str, rows: Iterable[tuple]) -> Iterator[str]:
    """A section of keys, each a row (key, what, default, example, values)."""
    yield "\n".join(["", f"## {title}", "", *([about.strip(), ""] if about else [])]).rstrip("\n")
    yield ""
    for key, what, default, example, allowed in rows:
        name = f"`{key}: {example}`" if example else f"`{key}` (`{default}`)"
        line = f"- {name}: {what}{'; ' if allowed else ''}{allowed}"
        yield textwrap.fill(line, 120, **LINES)


def _row(key: Field, told: str, kinds: dict) -> tuple:
    what, _, example = told.partition(" Example: ")
    example = example.strip("`")
    allowed = "" if example.startswith(("[", "{")) else _values(kinds[key.name])
    return key.name, what.rstrip("."), str(key.default).lower(), example, allowed


def _values(kind: CoreSchema) -> str:
    """What a value may be, if its type alone does not say it."""
    return re.sub("^a (whole )?number ", "", _words(kind))


def _words(kind: CoreSchema) -> str:
    """What a value may be. Nothing of texts and mappings, whose examples say it."""
    if kind.get("schema", {}).get("type") in ("str", "list", "dict"):
        return ""
    return words_of(kind)


def _arguments(reward: Callable) -> str:
    words = []
    for name, parameter in inspect.signature(reward).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name not in GIVEN_BY_US:
            required = parameter.default is parameter.empty
            words.append(f"{name}: {'…' if required else json.dumps(parameter.default)}")
    return ", ".join(words)


if __name__ == "__main__":
    print(*reference(), sep="\n")
