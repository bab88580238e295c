"""What the config classes of trl, peft and transformers declare, read from their source: importing them takes seconds,
and a misspelt key is reported at once. tests/schema/test_library_fields.py holds every field against the class itself.
"""

import ast
import typing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from schema.stages import ALGORITHMS, SECTIONS

_TRAINING = (
    ("trl", "trainer/base_config.py", "_BaseConfig"),
    ("transformers", "training_args.py", "TrainingArguments"),
)


def _of_trl(config: str) -> tuple[str, str, str]:
    """`trl.trainer.SFTConfig` is in the file trainer/sft_config.py."""
    package, *folders, name = config.split(".")
    return package, "/".join([*folders, f"{name.removesuffix('Config').lower()}_config.py"]), name


# The class of a section, or of an algorithm, and those it inherits from, the nearest first.
CLASSES = {
    "adapter": (
        ("peft", "tuners/lora/config.py", "LoraConfig"),
        ("peft", "config.py", "PeftConfig"),
        ("peft", "config.py", "PeftConfigMixin"),
    ),
    "quantization": (("transformers", "utils/quantization_config.py", "BitsAndBytesConfig"),),
    **{name: (_of_trl(each.config), *_TRAINING) for name, each in (SECTIONS | ALGORITHMS).items()},
}

UNKNOWN = object()  # a default that is worked out when the class is imported


class Field(NamedTuple):
    type: Any
    default: Any


@cache
def fields(section: str) -> dict[str, Field]:
    """Name to type and default of every field that a section of a recipe may set."""
    found: dict[str, Field] = {}
    for package, file, name in CLASSES[section]:
        root = Path(find_spec(package).submodule_search_locations[0])
        tree = ast.parse((root / file).read_text(encoding="utf-8"))
        body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        for key, field in _declared(body):
            found.setdefault(key, field)
    return found


def defaults(section: str) -> dict[str, Any]:
    """Name to default of every field whose default the source says."""
    return {key: field.default for key, field in fields(section).items() if field.default is not UNKNOWN}


def _declared(body: list[ast.stmt]):
    for node in body:
        if isinstance(node, ast.AnnAssign) and not _left_out(node.value):
            yield node.target.id, Field(_type(node.annotation), _default(node.value))
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":  # a class that is no dataclass
            names = [argument.arg for argument in node.args.args[1:]]
            for key, default in zip(names, map(_literal, node.args.defaults), strict=True):
                yield key, Field(bool if isinstance(default, bool) else Any, default)


class _Names(dict):
    """The names an annotation may use; one of the library's own is a class of that name."""

    def __missing__(self, name: str) -> type:
        return type(name, (), {})


_NAMES = _Names({name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union")})
_NAMES |= {kind.__name__: kind for kind in (bool, int, float, str, list, dict, tuple)}


def _type(annotation: ast.expr) -> Any:
    return eval(compile(ast.Expression(annotation), "annotation", "eval"), {"__builtins__": {}}, _NAMES)


def _left_out(value: ast.expr | None) -> bool:
    """Whether it is a field that its class sets itself (`init=False`)."""
    given = {each.arg: _literal(each.value) for each in value.keywords} if isinstance(value, ast.Call) else {}
    return given.get("init") is False


def _default(value: ast.expr | None) -> Any:
    if not isinstance(value, ast.Call):
        return UNKNOWN if value is None else _literal(value)
    return next((_literal(each.value) for each in value.keywords if each.arg == "default"), UNKNOWN)


def _literal(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        return UNKNOWN
