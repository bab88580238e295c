"""What the source of the libraries' config classes says is what the classes say."""

import dataclasses
import enum
import inspect
from typing import get_args, get_type_hints

import pytest

from schema import configs, library_fields
from schema.values import matches

PROBES = (True, 0, 1.5, "text", "none", ["text"], [1], {"key": 1}, None)


def real(section: str) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(configs.section_class(section)).parameters
    return {name: each for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}


@pytest.mark.parametrize("section", configs.SECTIONS)
def test_the_names_are_those_of_the_class(section):
    assert set(library_fields.fields(section)) == set(real(section))


@pytest.mark.parametrize("section", configs.SECTIONS)
def test_the_defaults_are_those_of_the_class(section):
    said = library_fields.defaults(section)
    for name, parameter in real(section).items():
        made = repr(parameter.default) == "<factory>" or isinstance(parameter.default, enum.Enum)
        assert name in said or made or name == "optim", name
        assert made or name not in said or said[name] == parameter.default, name


@pytest.mark.parametrize("section", ["adapter", "sft", "grpo", "dpo"])
def test_the_types_take_and_refuse_what_those_of_the_class_do(section):
    hints = get_type_hints(configs.section_class(section))
    assert all(dataclasses.is_dataclass(configs.section_class(each)) for each in ("adapter", "sft", "grpo", "dpo"))
    for name, field in library_fields.fields(section).items():
        # An enumeration's name is all the source tells: its values are the library's to refuse.
        if not any(issubclass(kind, enum.Enum) for kind in kinds(hints[name])):
            for value in PROBES:
                assert matches(value, field.type) == matches(value, hints[name]), (name, value)


def kinds(hint) -> list[type]:
    """Every class that a type hint mentions."""
    return [hint] if isinstance(hint, type) else [kind for each in get_args(hint) for kind in kinds(each)]
