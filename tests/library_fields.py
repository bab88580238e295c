"""Writes schema/library_fields.json, the fields of the libraries' config classes. `make lock` runs
it, since another version may have other fields, and a test compares the file with the classes.

python -m tests.library_fields
"""

import inspect
import json
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from schema import configs
from schema.settings import section_class


def text() -> str:
    """The file, with a line for each field."""
    sections = []
    for section in configs.SECTIONS:
        lines = []
        for name, field in fields_of(section_class(section)).items():
            lines.append(f"  {json.dumps(name)}: {json.dumps(field)}")
        sections.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def fields_of(config_class: type) -> dict[str, dict[str, Any]]:
    """The type of each field of a class by its name, and its default where that is a value. A
    field without a declared type has the type of its default."""
    hints = get_type_hints(config_class)
    fields = {}
    for name, parameter in inspect.signature(config_class).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        fields[name] = {"type": type_name(hints.get(name, type(parameter.default)))}
        if repr(parameter.default) != "<factory>":  # of a dataclass, which calls a function for it
            fields[name]["default"] = parameter.default
    return fields


def type_name(hint: Any) -> str:
    """A type such as `int | None`, without the types of a list's items. The options are sorted,
    since `typing` may swap those of two equal types."""
    options = [hint]
    if get_origin(hint) in (Union, UnionType):
        options = get_args(hint)
    names = {getattr(option, "__name__", str(option)) for option in options}
    end = ["None"] if "NoneType" in names else []
    return " | ".join([*sorted(names - {"NoneType"}), *end])


if __name__ == "__main__":
    configs.LIBRARY_FIELDS.write_text(text(), encoding="utf-8")
