"""What each key of a recipe may be: the one table of ranges and names.

The libraries' own classes check little: a negative learning rate trains away from the rewards,
`max_steps: 0` takes a step, and `top_p: 5` fails only after the warm start has trained. The rules
of this file refuse such values before. Every other key is a number or a switch, as its field
declares, and the library's own class checks it. A field of any other type is refused: it may
upload, download code, open a port or write outside the run's folder, and a recipe may come from a
stranger (schema/refused_keys.py).
"""

import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from console.faults import nearest, nearest_or_all

# Hints for names from other tools, where the nearest name would mean something else.
HINTS = {
    "gspo": "; GSPO is importance_sampling_level: sequence, with loss_type: grpo",
    "adamw": "; did you mean adamw_torch?",
    "True": "; did you mean group?",
    "False": "; did you mean none?",
}
MANY = 10**9  # steps, tokens or problems: no machine goes beyond that


@dataclass(frozen=True)
class Rule:
    """A value that `fits`; `words` say which do. `is_fraction`: a number that need not be whole."""

    words: str
    fits: Callable[[Any], bool]
    is_fraction: bool = False

    def refusal(self, value: Any) -> str | None:
        if self.fits(value):
            return None
        return f"expected {self.words}, got {value!r:.80}"

    def __str__(self) -> str:
        return self.words


def number(low: float, high: float, above: bool = False, below: bool = False) -> Rule:
    """A finite number from `low` to `high`. `above`: `low` itself is excluded; `below`: `high`
    is."""

    def fits(value: Any) -> bool:
        is_excluded = (above and value == low) or (below and value == high)
        return has_type(value, float) and low <= value <= high and not is_excluded

    bounds = f"from {low:,.10g} to {high:,.10g}"
    if high == MANY:
        bounds = f"from {low:,.10g} up"
    elif above:
        bounds = f"above {low:,.10g} and at most {high:,.10g}"
    elif below:
        bounds = f"from {low:,.10g} to below {high:,.10g}"
    return Rule(f"a number {bounds}", fits, is_fraction=True)


def count(low: int = 1, high: int = MANY, *also) -> Rule:
    """A whole number in that range, or one of `also`."""
    words = str(number(low, high)).replace("a number", "a whole number")
    words += "".join(f", or {value}" for value in also)
    return Rule(
        words, lambda value: has_type(value, int) and (low <= value <= high or value in also)
    )


def pattern(expression: str, words: str) -> Rule:
    """A text that matches the expression."""
    return Rule(words, lambda value: isinstance(value, str) and re.fullmatch(expression, value))


def of_type(hint: Any) -> Rule:
    """A value of a Python type, such as an argument of a user's function declares."""
    return Rule(_described(hint), lambda value: has_type(value, hint))


@dataclass(frozen=True)
class OneOf:
    """One of these names; the nearest is suggested."""

    names: tuple

    def refusal(self, value: Any) -> str | None:
        # The types are compared since 1 equals true.
        if any(type(value) is type(name) and value == name for name in self.names):
            return None
        hint = HINTS.get(str(value), nearest(value, self.names))
        return f"{value!r:.80} is not one of {self}{hint}"

    def __str__(self) -> str:
        return ", ".join("true" if name is True else str(name) for name in self.names)


@dataclass(frozen=True)
class ListOf:
    """A list of values of one kind that is not empty. `single`: one such value by itself is allowed
    too. `once`: no value may be in the list twice."""

    kind: Any
    single: bool = False
    once: bool = False

    def refusal(self, value: Any) -> str | None:
        if self.single:
            value = as_list(value)
        if not isinstance(value, list) or not value:
            refusal = f"expected a list that is not empty, got {value!r:.80}"
            if not isinstance(value, list) and not self.kind.refusal(value):
                refusal += f"; write [{value!s:.80}]"
            return refusal
        for item in value:
            refusal = self.kind.refusal(item)
            if refusal:
                return refusal
            if self.once and value.count(item) > 1:
                return f"{item!s:.80} is named twice"
        return None


@dataclass(frozen=True)
class Keys:
    """A mapping whose keys have a rule each."""

    rules: Mapping[str, Any]

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected a mapping, got {value!r:.80}"
        for key, entry in value.items():
            if key not in self.rules:
                return f"unknown key {key!r}{nearest_or_all(key, self.rules)}"
            refusal = self.rules[key].refusal(entry)
            if refusal:
                return f"{key}: {refusal}"
        return None


@dataclass(frozen=True)
class Either:
    """A value of any of the kinds. The refusal of any other value is the first kind's."""

    kinds: tuple

    def refusal(self, value: Any) -> str | None:
        for kind in self.kinds:
            if not kind.refusal(value):
                return None
        return self.kinds[0].refusal(value)


@dataclass(frozen=True)
class Span:
    """A list of the lowest and the highest value, both of one kind."""

    kind: Rule

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, list) or len(value) != 2:
            words = f"a list of the lowest and the highest, each {self.kind}"
            return f"expected {words}, got {value!r:.80}"
        refusal = ListOf(self.kind).refusal(value)
        if not refusal and value[0] > value[1]:
            refusal = f"expected the lowest first, got {value!r}"
        return refusal


@dataclass(frozen=True)
class MappingOf:
    """A mapping, which `words` describe, that is not empty: from names of one kind to values of
    one."""

    words: str
    kind: Any
    name: Rule = Rule("a name", lambda name: True)

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not value:
            return f"expected {self}, got {value!r:.80}"
        for name, entry in value.items():
            refusal = self.name.refusal(name)
            if refusal:
                return refusal
            refusal = self.kind.refusal(entry)
            if refusal:
                return f"{name}: {refusal}"
        return None

    def __str__(self) -> str:
        return self.words


class Condition:
    """What `where` asks for in a column: a value, a list of values, or the bounds of a number."""

    def refusal(self, value: Any) -> str | None:
        if isinstance(value, dict) and "not" in value:
            if len(value) == 1 and not isinstance(value["not"], dict):
                return self.refusal(value["not"])
            return "`not` stands alone, before a value or a list of values"
        if isinstance(value, dict) and value:
            refusal = Keys({"min": ANY_NUMBER, "max": ANY_NUMBER}).refusal(value)
            if not refusal and value.get("min", -math.inf) > value.get("max", math.inf):
                return "`min` is above `max`"
            return refusal
        values = as_list(value)
        if values and all(map(_is_plain, values)):
            return None
        return "expected a value, a list of values, {min: …, max: …}, or {not: …}"


class Switch:
    """True or false."""

    def refusal(self, value: Any) -> str | None:
        refusal = of_type(bool).refusal(value)
        if str(value).lower() in ("yes", "no", "on", "off"):
            return f"{refusal}; YAML 1.2 reads that as text"
        return refusal


WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}


def _described(hint: Any) -> str:
    """A type of YAML's values in words; empty for another."""
    options = get_args(hint)
    kind = get_origin(hint) or hint
    if kind in (Union, types.UnionType):
        words = [_described(option) for option in options if option is not type(None)]
        return " or ".join(dict.fromkeys(words))
    if kind is Literal:
        return " or ".join(map(repr, options))
    return WORDS.get(kind, "")


def has_type(value: Any, hint: Any) -> bool:
    """Whether a YAML value is of the type. A whole number is of type float too. A type that YAML
    cannot write takes any value."""
    kind = get_origin(hint) or hint
    arguments = get_args(hint)
    if kind in (Union, types.UnionType):
        return any(has_type(value, option) for option in arguments)
    if kind is Literal:
        return value in arguments
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is list and arguments:
        return isinstance(value, list) and all(has_type(item, arguments[0]) for item in value)
    return kind not in WORDS or isinstance(value, kind)


def as_list(value: Any) -> list:
    """The value, or a list that holds it alone where it is none."""
    if isinstance(value, list):
        return value
    return [value]


def _is_plain(value: Any) -> bool:
    """Whether a value is a text, a finite number, true or false."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


ANY_NUMBER = number(-1e18, 1e18)
PLAIN = Rule(
    "a text, a number, true or false", lambda value: _is_plain(value) and len(str(value)) <= 200
)
WHERE = MappingOf("a mapping such as {level: [4, 5]}", Condition())


def _same(rule: Any, keys: str) -> dict[str, Any]:
    """The same rule for several keys, which spaces separate."""
    return dict.fromkeys(keys.split(), rule)


SWITCH = Switch()
# The rule of a field without one of its own. None of these has a use for a negative number.
BY_TYPE = {"bool": SWITCH, "int": count(0), "float": number(0, MANY)}
# Plain names only: peft reads most of these as regular expressions, and a malicious one never ends.
_MODULE = r"\w[\w.]{0,200}"
MODULE = pattern(_MODULE, "the name of a module such as q_proj")
MODULES = ListOf(MODULE)
# For the names of experts peft writes the prefix `.*\.`, which is no danger.
PATTERN = pattern(r"(\.\*\\\.)?" + _MODULE, MODULE.words)
PER_MODULE = "a mapping from modules' names to values"
# An argument of a chat template, but those that trl and transformers set.
ARGUMENT = pattern(
    r"(?!(messages|tools|documents|add_generation_prompt|(bos|eos|pad|unk)_token)$)[A-Za-z]\w{0,60}",
    "the name of a template's argument that a recipe may set",
)


def remote_trackers(report_to: Any) -> list[str]:
    """The trackers of a recipe that send a run to another machine."""
    return [tracker for tracker in as_list(report_to) if tracker in REMOTE_TRACKERS]


SHARE = number(0, 1)
DTYPES = OneOf(("float32", "bfloat16", "float16"))

# These trackers write local files, or nothing.
LOCAL_TRACKERS = ("none", "tensorboard", "trackio")
REMOTE_TRACKERS = ("wandb", "mlflow", "comet_ml", "swanlab")
TRACKERS = LOCAL_TRACKERS + REMOTE_TRACKERS  # `none` comes first, and stands in no list of them
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")  # not 0.0.0.0, which listens to other machines

BITSANDBYTES_OPTIMIZERS = (
    "adamw_8bit adamw_bnb_8bit ademamix ademamix_8bit lion_32bit lion_8bit paged_adamw_32bit"
    " paged_adamw_8bit paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit paged_lion_8bit"
    " rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit"
)
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop")
OPTIMIZERS += tuple(BITSANDBYTES_OPTIMIZERS.split())
SCHEDULES = (
    "linear cosine cosine_with_restarts polynomial constant constant_with_warmup inverse_sqrt"
    " cosine_with_min_lr cosine_warmup_with_min_lr warmup_stable_decay"
)
# Arguments of some schedules. transformers checks that the schedule takes them as it makes one.
SCHEDULE_ARGUMENTS = (
    "min_lr min_lr_rate warmup_lr_rate min_lr_ratio lr_end power num_cycles timescale"
    " num_decay_steps num_stable_steps"
)
# flash_attention_2 and _3 need their package: transformers would download a kernel instead.
# flex_attention is compiled at its first use, and a recipe starts no compiler.
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3")
TRANSFORMERS_SAMPLING = {"min_new_tokens": count(0, 2**20), "no_repeat_ngram_size": count(0, 1000)}
VLLM_SAMPLING = {
    "min_tokens": count(0, 2**20),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
}

LARGEST_GROUP = 65536
FOLDER = r"[^\x00-\x1f\x7f-\x9f]{1,500}"
# See `schema.sections.OwnSolutions`. Their product is at most a probe's 10,000,000 completions.
OWN_SOLUTIONS = {
    "problems": count(1, 100_000),
    "samples": count(1, 100),
    "keep": count(),
    "temperature": number(0.01, 10),
    "model": pattern(FOLDER, "the folder of a finished stage"),
}

RULES: dict[str, dict[str, Any]] = {}
RULES["recipe"] = {
    "seed": count(0, 2**32 - 2**16),
    "output_dir": pattern(FOLDER, "the name of a folder"),
    "tools": ListOf(OneOf(("calculator",)), once=True),
}
RULES["model"] = {
    "name_or_path": pattern(FOLDER, "a Hub id or a folder"),
    "build": of_type(str),
    "revision": pattern(r"[\w./-]{1,100}", "a branch, a tag or a commit"),
    "dtype": DTYPES,
    "attn_implementation": OneOf(ATTENTION),
    "chat_template": pattern(r"[\s\S]{1,60000}", "a template"),
    "chat_template_kwargs": MappingOf(
        "a mapping from names to values, such as {enable_thinking: false}", PLAIN, ARGUMENT
    ),
}
RULES["data"] = {
    "train": of_type(list),
    **_same(count(), "validation worked"),
    "pass_rate": Span(SHARE),
    "own_solutions": Keys(OWN_SOLUTIONS),
    "dir": pattern(r"(?!\w+://)" + FOLDER, "a folder"),
}
RULES["prompt"] = {"system": pattern(r"[\s\S]{0,60000}", "a text")}
RULES["evaluate"] = {
    "benchmarks": of_type(list),
    "control": SWITCH,
    **_same(count(), "limit checkpoint_problems"),
    "engine": OneOf(("transformers", "vllm")),
    "batch_size": count(1, 65536),
    "max_new_tokens": count(1, 2**20),
    "samples": count(1, 10_000),
    "temperature": number(0, 100),
    "top_p": number(0, 1, above=True),
    "patience": count(0, MANY),
}
TRAINING = {
    "learning_rate": number(0, 1, above=True),
    **_same(count(1, 65536), "per_device_train_batch_size gradient_accumulation_steps"),
    "num_train_epochs": number(0, 1e6, above=True),
    "max_steps": count(1, MANY, -1),
    "warmup_steps": Either((count(0), number(0, 1, below=True))),
    "optim": OneOf(OPTIMIZERS),
    **_same(number(0, 1, below=True), "adam_beta1 adam_beta2"),
    "adam_epsilon": number(1e-20, 1),  # anything smaller is 0 in float32, and 0 / 0 is not a number
    "lr_scheduler_type": OneOf(tuple(SCHEDULES.split())),
    "lr_scheduler_kwargs": Keys(_same(BY_TYPE["float"], SCHEDULE_ARGUMENTS)),
    **_same(count(), "logging_steps save_steps save_total_limit"),
    "save_strategy": OneOf(("steps", "no")),
    "report_to": Either((OneOf(TRACKERS), ListOf(OneOf(TRACKERS[1:])))),
    "gradient_checkpointing_kwargs": Keys({"use_reentrant": SWITCH}),
}
RULES["sft"] = TRAINING | {
    "max_length": count(2, 2**20),
    "loss_type": OneOf(("nll", "dft")),
    "train_sampling_strategy": OneOf(("random", "sequential")),
}
RULES["grpo"] = TRAINING | {
    "num_generations": count(2, LARGEST_GROUP),
    "max_completion_length": count(1, 2**20),
    "generation_batch_size": count(2, 2**24),
    **_same(count(1, 65536), "steps_per_generation per_device_eval_batch_size"),
    "eval_steps": count(),
    "max_tool_calling_iterations": count(1, 1000),
    "temperature": number(0.01, 10),
    "top_p": number(0, 1, above=True),
    "top_k": count(0, 2**31 - 1),
    "min_p": number(0, 1, below=True),
    "repetition_penalty": number(0.01, 10),  # logits divided by less become infinite
    "generation_kwargs": Keys(TRANSFORMERS_SAMPLING | VLLM_SAMPLING),
    "cache_implementation": OneOf(("dynamic", "static")),
    "vllm_mode": OneOf(("colocate", "server")),
    "vllm_model_impl": OneOf(("vllm", "transformers")),
    "vllm_server_host": pattern(r"[\w.:-]{1,253}", "the name or address of a host"),
    "vllm_server_port": count(1, 65535),
    "vllm_group_port": count(1024, 65535),
    "vllm_gpu_memory_utilization": number(0, 1, above=True),
    "vllm_max_model_length": count(2, 2**24),
    "num_iterations": count(1, 1000),
    "epsilon": SHARE,
    "epsilon_high": number(0, 1e6),
    "importance_sampling_level": OneOf(("token", "sequence")),
    "multi_objective_aggregation": OneOf(("sum_then_normalize", "normalize_then_sum")),
    "scale_rewards": OneOf(("group", "batch", "none")),
    "loss_type": OneOf(("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")),
    "beta": number(0, 10),
    "vllm_importance_sampling_mode": OneOf(
        ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
    ),
}
RULES["adapter"] = {
    "r": count(1, 4096),
    "lora_alpha": count(1, 65536),
    "lora_dropout": number(0, 1, below=True),
    "target_modules": Either((MODULES, OneOf(("all-linear",)))),
    "target_parameters": MODULES,
    "exclude_modules": MODULES,
    "modules_to_save": MODULES,
    "bias": OneOf(("none",)),
    "init_lora_weights": OneOf((True, "gaussian", "orthogonal")),
    "layers_to_transform": ListOf(count(0, 10_000), single=True),
    "layers_pattern": ListOf(MODULE, single=True),
    "rank_pattern": MappingOf(PER_MODULE, count(1, 4096), PATTERN),
    "alpha_pattern": MappingOf(PER_MODULE, number(0, 65536, above=True), PATTERN),
}
RULES["quantization"] = {
    "bnb_4bit_compute_dtype": DTYPES,
    "bnb_4bit_quant_type": OneOf(("nf4", "fp4")),
    "bnb_4bit_quant_storage": OneOf(("uint8", "float16", "bfloat16", "float32")),
}

# Keys that may be null although trl's default is a number: null switches the limit off.
MAY_BE_NOTHING = {"max_length", "vllm_importance_sampling_clip_max"}
