"""Types of a recipe's values, by pydantic: how one is written, and what is said of a value that is
not of it.

They are schemas of pydantic_core. A misspelt key is to be answered at once, and importing pydantic
takes four times as long.
"""

import re
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Union, get_args, get_origin

from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError
from pydantic_core import core_schema as core

from console.faults import nearest, nearest_or_all

# Hints for names from other tools, where the nearest name would mean something else.
HINTS = {
    "gspo": "; GSPO is importance_sampling_level: sequence, with loss_type: grpo",
    "adamw": "; did you mean adamw_torch?",
    "fp16": "; did you mean float16?",
    "fp32": "; did you mean float32?",
    "True": "; did you mean group?",
    "False": "; did you mean none?",
}
MANY = 10**9  # steps, tokens or problems: no machine goes beyond that
TRUE_OR_FALSE = "true or false"


def type_fault(kind: CoreSchema, value: Any) -> str | None:
    """Why a value is not of a type, or None where it is."""
    try:
        SchemaValidator(kind).validate_python(value)
    except ValidationError as error:
        message = _in_words(error.errors(include_url=False)[0])
        is_words = isinstance(value, str) and re.fullmatch(r"[\w./~-]+(, ?[\w./~-]+)*", value)
        if is_words and _fits(kind, re.split(", ?", value)):
            message += f"; write [{value}]"
        elif isinstance(value, dict) and _fits(kind, [value]):
            message += f"; it is a list: write [{', '.join(map(str, value))}]"
        elif isinstance(value, list) and len(value) == 1 and _fits(kind, value[0]):
            message += f": write {value[0]}"
        elif type(value) is float and value.is_integer() and _fits(kind, int(value)):
            message += f": write {value:.0f}"
        elif isinstance(value, str):
            message += _as_meant(kind, value)
        return message
    return None


def _fits(kind: CoreSchema, value: Any) -> bool:
    return SchemaValidator(kind).isinstance_python(value)


def _as_meant(kind: CoreSchema, text: str) -> str:
    """`: write …` for a text that stands for a number or a switch of this type; else empty."""
    plain = text.strip()
    switches = {"true": True, "false": False}
    if plain.lower() in switches and _fits(kind, switches[plain.lower()]):
        quotes = " without the quotes" if plain in switches else ""
        return f": write {plain.lower()}{quotes}"
    for written in (plain, plain.replace(",", "."), _share(plain)):
        for read in (int, float):
            with suppress(ValueError):
                if _fits(kind, read(written)):
                    quotes = " without the quotes" if written == plain else ""
                    return f": write {written}{quotes}"
    return ""


def _share(text: str) -> str:
    """`0.95` for `95%`; empty for another text."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?) ?%", text)
    return f"{float(match[1]) / 100:g}" if match else ""


def _in_words(error: Mapping[str, Any]) -> str:
    """The message of an error of pydantic, after the keys above the value."""
    value = error["input"]
    names = error.get("ctx", {}).get("names", ())
    loc = error["loc"]
    message = f"expected {error['msg']}, got {value!r:.80}"
    if loc[-1:] == ("[key]",):
        loc = loc[:-2]
        if names:
            message = f"unknown key {value!r:.80}{nearest_or_all(value, names)}"
    elif names:
        hint = HINTS.get(str(value), nearest(value, names))
        message = f"{value!r:.80} is not one of {_listed(names)}{hint}"
    if error["msg"] == TRUE_OR_FALSE and str(value).lower() in ("yes", "no", "on", "off"):
        switch = "true" if str(value).lower() in ("yes", "on") else "false"
        message += f"; YAML 1.2 reads that as text: write {switch}"
    keys = [key for key in loc if isinstance(key, str) and key not in BRANCHES]
    return ": ".join([*keys, message])


def words_of(kind: CoreSchema) -> str:
    """What a type takes; empty for one that takes any value, or one of several parts."""
    if kind["type"] != "custom-error":
        return ""
    names = kind.get("custom_error_context", {}).get("names")
    if names:
        return _listed(names)
    return kind["custom_error_message"]


def _listed(names: Sequence) -> str:
    return ", ".join("true" if name is True else str(name) for name in names)


# How a type is written ----------------------------------------------------------------------------


def expected(words: str, kind: CoreSchema) -> CoreSchema:
    """The type, whose only error is that `words` were expected."""
    return core.custom_error_schema(kind, "expected", custom_error_message=words)


def _bounds(low: float, high: float) -> str:
    if high == MANY:
        return f"from {low:,.10g} up"
    return f"from {low:,.10g} to {high:,.10g}"


def integer(low: int = 1, high: int = MANY) -> CoreSchema:
    """A whole number in that range."""
    words = f"a whole number {_bounds(low, high)}"
    return expected(words, core.int_schema(strict=True, ge=low, le=high))


def number(low: float, high: float) -> CoreSchema:
    """A finite number in that range."""
    kind = core.float_schema(strict=True, allow_inf_nan=False, ge=low, le=high)
    return expected(f"a number {_bounds(low, high)}", kind)


def above(low: float, high: float) -> CoreSchema:
    """A finite number in that range without `low`."""
    kind = core.float_schema(strict=True, allow_inf_nan=False, gt=low, le=high)
    return expected(f"a number above {low:,.10g} and at most {high:,.10g}", kind)


def below(low: float, high: float) -> CoreSchema:
    """A finite number in that range without `high`."""
    kind = core.float_schema(strict=True, allow_inf_nan=False, ge=low, lt=high)
    return expected(f"a number from {low:,.10g} to below {high:,.10g}", kind)


def text(pattern: str, words: str) -> CoreSchema:
    """A text that matches the expression as a whole."""
    return expected(
        words, core.str_schema(strict=True, pattern=rf"\A(?:{pattern})\Z", regex_engine="python-re")
    )


def one_of(*names: str) -> CoreSchema:
    """One of these names; the nearest is suggested."""
    return named(names, core.literal_schema(list(names)))


def named(names: Sequence, kind: CoreSchema) -> CoreSchema:
    """The type, which takes these names."""
    return core.custom_error_schema(
        kind,
        "one_of",
        custom_error_message="one of the names",
        custom_error_context={"names": names},
    )


def either(words: str, *kinds: CoreSchema) -> CoreSchema:
    """A value of any of the types."""
    return expected(words, core.union_schema(list(kinds), mode="left_to_right"))


def some(item: CoreSchema) -> CoreSchema:
    """A list of values of one type that is not empty."""
    is_list = expected("a list that is not empty", core.list_schema(min_length=1, strict=True))
    return core.chain_schema([is_list, core.list_schema(item)])


# Which type of `value_or_list` an error is of.
BRANCHES = ("[value]", "[list]", "[not]", "[bounds]")


def value_or_list(value: CoreSchema, values: CoreSchema) -> CoreSchema:
    """A value of one type, or a list of another."""
    branches = {"[value]": value, "[list]": values}
    return core.tagged_union_schema(branches, which_of_value_or_list)


def which_of_value_or_list(value: Any) -> str:
    return "[list]" if isinstance(value, list) else "[value]"


def mapping(keys: dict[str, CoreSchema]) -> CoreSchema:
    """A mapping of some of these keys to values of their types."""
    fields = {key: core.typed_dict_field(kind, required=False) for key, kind in keys.items()}
    is_mapping = expected("a mapping", core.dict_schema(strict=True))
    return core.chain_schema(
        [is_mapping, core.dict_schema(one_of(*keys)), core.typed_dict_schema(fields)]
    )


def mapping_of(words: str, name: CoreSchema, kind: CoreSchema) -> CoreSchema:
    """A mapping, which `words` describe, that is not empty: from names of one type to values of
    one."""
    is_mapping = expected(words, core.dict_schema(min_length=1, strict=True))
    return core.chain_schema([is_mapping, core.dict_schema(name, kind)])


def _in_order(span: list) -> list:
    if span[0] > span[1]:
        raise ValueError("the highest comes first")
    return span


def span(kind: CoreSchema) -> CoreSchema:
    """A list of the lowest and the highest value, both of one type."""
    pair = core.list_schema(kind, min_length=2, max_length=2, strict=True)
    words = f"a list of the lowest and then the highest, each {kind['custom_error_message']}"
    return expected(words, core.no_info_after_validator_function(_in_order, pair))


def once(values: CoreSchema) -> CoreSchema:
    """A list of such values in which none stands twice."""
    return core.no_info_after_validator_function(_without_repeats, values)


def _without_repeats(values: list) -> list:
    for value in values:
        if values.count(value) > 1:
            raise PydanticCustomError("expected", "each of them once")
    return values


# The types that a function of the user's may declare.
SWITCH = expected(TRUE_OR_FALSE, core.bool_schema(strict=True))
DECLARED = {
    bool: SWITCH,
    int: expected("a whole number", core.int_schema(strict=True)),
    float: expected("a number", core.float_schema(strict=True)),
    str: expected("text", core.str_schema(strict=True)),
    list: expected("a list", core.list_schema(strict=True)),
    dict: expected("a mapping", core.dict_schema(strict=True)),
    type(None): expected("nothing", core.none_schema()),
}


def of_type(hint: Any) -> CoreSchema:
    """A value of a Python type, such as an argument of a user's function declares. A type that YAML
    cannot write takes any value."""
    kind = get_origin(hint) or hint
    arguments = get_args(hint)
    if kind in (Union, types.UnionType):
        kinds = [of_type(option) for option in arguments]
        words = [words_of(kind) for kind in kinds if kind != DECLARED[type(None)]]
        return either(" or ".join(filter(None, words)), *kinds)
    if kind is Literal:
        return one_of(*arguments)
    if kind is list and arguments:
        return expected("a list", core.list_schema(of_type(arguments[0]), strict=True))
    return DECLARED.get(kind, core.any_schema())


def is_fraction(kind: CoreSchema) -> bool:
    """Whether a type is a number that need not be whole."""
    return kind["type"] == "custom-error" and kind["schema"]["type"] == "float"
