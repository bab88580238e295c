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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.faults import nearest, nearest_or_all
from schema.stages import ALGORITHMS

# Hints for names from other tools, where the nearest name would mean something else.
HINTS = {
    "gspo": "GSPO is importance_sampling_level: sequence, with loss_type: grpo",
    "adamw": "did you mean adamw_torch?",
    "True": "did you mean group?",
    "False": "did you mean none?",
}
# Arguments of a template that trl and transformers set.
LIBRARY_ARGUMENTS = ["messages", "tools", "documents", "add_generation_prompt"]
LIBRARY_ARGUMENTS += ["bos_token", "eos_token", "pad_token", "unk_token"]
MANY = 10**9  # steps, tokens or problems: no machine goes beyond that


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`. `above`: `low` itself is excluded; `below`: `high` is.
    `also`: other values that are allowed."""

    low: float
    high: float
    above: bool = False
    below: bool = False
    is_whole: bool = False
    also: tuple = ()

    def refusal(self, value: Any) -> str | None:
        if value in self.also and not isinstance(value, bool):
            return None
        kind = int if self.is_whole else int | float
        fits = isinstance(value, kind) and not isinstance(value, bool)
        fits = fits and self.low <= value <= self.high  # which no NaN is
        fits = fits and not (self.above and value == self.low)
        fits = fits and not (self.below and value == self.high)
        return None if fits else f"expected {self}, got {value!r:.80}"

    def __str__(self) -> str:
        words = "a whole number" if self.is_whole else "a number"
        low = f"{self.low:,.10g}"
        high = f"{self.high:,.10g}"
        if self.high == MANY:
            bounds = f"from {low} up"
        else:
            lower = f"above {low} and" if self.above else f"from {low} to"
            upper = f"at most {high}" if self.above else high
            if self.below:
                upper = f"below {high}"
            bounds = f"{lower} {upper}"
        return f"{words} {bounds}" + "".join(f", or {value}" for value in self.also)


@dataclass(frozen=True)
class OneOf:
    """One of these names; the nearest is suggested."""

    names: tuple

    def refusal(self, value: Any) -> str | None:
        # The types are compared since 1 equals true.
        if any(type(value) is type(name) and value == name for name in self.names):
            return None
        hint = nearest(value, self.names)
        if str(value) in HINTS:
            hint = f"; {HINTS[str(value)]}"
        return f"{value!r:.80} is not one of {self}{hint}"

    def __str__(self) -> str:
        return ", ".join("true" if name is True else str(name) for name in self.names)


@dataclass(frozen=True)
class Pattern:
    """A text that matches the pattern, which `words` describe."""

    pattern: str
    words: str

    def refusal(self, value: Any) -> str | None:
        fits = isinstance(value, str) and re.fullmatch(self.pattern, value)
        return None if fits else f"expected {self.words}, got {value!r:.80}"


@dataclass(frozen=True)
class ListOf:
    """A list of values of one kind that is not empty. `single`: one such value by itself is allowed
    too. `once`: no value may be in the list twice."""

    kind: Any
    single: bool = False
    once: bool = False

    def refusal(self, value: Any) -> str | None:
        values = [value] if self.single and not isinstance(value, list) else value
        if not isinstance(values, list) or not values:
            alone = not isinstance(value, list) and not self.kind.refusal(value)
            hint = f"; write [{value!s:.80}]" if alone else ""
            return f"expected a list that is not empty, got {value!r:.80}{hint}"
        for item in values:
            refusal = self.kind.refusal(item)
            if refusal:
                return refusal
            if self.once and values.count(item) > 1:
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
        refusals = [kind.refusal(value) for kind in self.kinds]
        return None if None in refusals else refusals[0]


@dataclass(frozen=True)
class Span:
    """A list of the lowest and the highest value, both of one kind."""

    kind: Number

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, list) or len(value) != 2:
            words = f"a list of the lowest and the highest, each {self.kind}"
            return f"expected {words}, got {value!r:.80}"
        refusal = ListOf(self.kind).refusal(value)
        if not refusal and value[0] > value[1]:
            refusal = f"expected the lowest first, got {value!r}"
        return refusal


class Arguments:
    """A mapping from names of a chat template's arguments to texts, numbers, true or false."""

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not value:
            words = "a mapping from names to values, such as {enable_thinking: false}"
            return f"expected {words}, got {value!r:.80}"
        for name, argument in value.items():
            if not re.fullmatch(r"[A-Za-z]\w{0,60}", str(name)) or name in LIBRARY_ARGUMENTS:
                return f"{name!r:.80} is no argument of a template that a recipe may set"
            if not _is_plain(argument) or len(str(argument)) > 200:
                return f"{name}: expected a text, a number, true or false, got {argument!r:.80}"
        return None

    def __str__(self) -> str:
        return "names, each with a text, a number, true or false"


class Where:
    """A mapping from columns to a value, a list of values, or the bounds of a number."""

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not value:
            return f"expected a mapping such as {{level: [4, 5]}}, got {value!r:.80}"
        for column, condition in value.items():
            refusal = self._column_refusal(condition)
            if refusal:
                return f"{column}: {refusal}"
        return None

    def _column_refusal(self, condition: Any) -> str | None:
        if isinstance(condition, dict) and condition:
            if "not" in condition:
                excluded = condition["not"]
                refusal = "`not` stands alone, before a value or a list of values"
                is_alone = len(condition) == 1 and not isinstance(excluded, dict)
                return self._column_refusal(excluded) if is_alone else refusal
            refusal = Keys({"min": ANY_NUMBER, "max": ANY_NUMBER}).refusal(condition)
            if not refusal and condition.get("min", -math.inf) > condition.get("max", math.inf):
                refusal = "`min` is above `max`"
            return refusal
        values = condition if isinstance(condition, list) else [condition]
        if values and all(_is_plain(value) for value in values):
            return None
        return "expected a value, a list of values, {min: …, max: …}, or {not: …}"


class Switch:
    """True or false."""

    def refusal(self, value: Any) -> str | None:
        if isinstance(value, bool):
            return None
        is_yaml_1_1 = str(value).lower() in ("yes", "no", "on", "off")
        hint = "; YAML 1.2 reads that as text" if is_yaml_1_1 else ""
        return f"expected true or false, got {value!r:.80}{hint}"


class Tool:
    """The name of a tool, or the mapping that allows Python."""

    def refusal(self, value: Any) -> str | None:
        # Their texts are compared, since 1 equals true.
        if repr(value) == repr({"python": {"run_programs": True}}):
            return None
        if value == "python" or (isinstance(value, dict) and "python" in value):
            remedy = "to allow it, write python: {run_programs: true}"
            return f"python runs what the policy writes: {remedy}"
        return OneOf(("calculator", "python")).refusal(value)


@dataclass(frozen=True)
class PerModule:
    """A mapping of modules' names to values of one kind."""

    kind: Any
    names: ListOf

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not value:
            return f"expected a mapping from modules' names to values, got {value!r:.80}"
        return self.names.refusal(list(value)) or ListOf(self.kind).refusal(list(value.values()))


def _is_plain(value: Any) -> bool:
    """Whether a value is a text, a finite number, true or false."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


def count(low: int = 1, high: int = MANY, *also) -> Number:
    """A whole number in that range, or one of `also`."""
    return Number(low, high, is_whole=True, also=also)


def _same(rule: Any, keys: str) -> dict[str, Any]:
    """The same rule for several keys, which spaces separate."""
    return dict.fromkeys(keys.split(), rule)


SWITCH = Switch()
# The rule of a field without one of its own. None of these has a use for a negative number.
BY_TYPE = {"bool": SWITCH, "int": Number(0, MANY, is_whole=True), "float": Number(0, MANY)}
ANY_NUMBER = Number(-1e18, 1e18)
# Plain names only: peft reads most of these as regular expressions, and a malicious one never ends.
MODULE = Pattern(r"\w[\w.]{0,200}", "the name of a module such as q_proj")
MODULES = ListOf(MODULE)
# For the names of experts peft writes the prefix `.*\.`, which is no danger.
PATTERNS = ListOf(Pattern(r"(\.\*\\\.)?" + MODULE.pattern, MODULE.words))


def remote_trackers(report_to: Any) -> list[str]:
    """The trackers of a recipe that send a run to another machine."""
    trackers = report_to if isinstance(report_to, list) else [report_to]
    return [tracker for tracker in trackers if tracker in REMOTE_TRACKERS]


def rule_of(section: str, key: str, type: str) -> Any | None:
    """The rule for the value of a key: from the table RULES, or else by the type of its field. None
    for a type that may name a file, an address or code: no recipe may set such a field.

    Args:
        type: the type of its field, see `schema.configs.Field`.
    """
    if key in RULES[section]:
        return RULES[section][key]
    alternatives = type.split(" | ")
    return next((rule for name, rule in BY_TYPE.items() if name in alternatives), None)


def refusal(section: str, key: str, value: Any, type: str, default: Any) -> str | None:
    """The reason why a key that a recipe may set cannot have this value, or None.

    Args:
        type: the type of its field, see `schema.configs.Field`.
        default: the default of its field.
    """
    if value is None:
        may_be_none = default is None or key in MAY_BE_NOTHING
        return None if may_be_none else "has no value: give one, or leave the key out"
    return rule_of(section, key, type).refusal(value)


SHARE = Number(0, 1)
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
# flash_attention_2 and _3 are refused unless their package is installed: transformers would
# download a kernel instead. flex_attention is compiled at its first use, and a recipe starts no
# compiler.
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3")
TRANSFORMERS_SAMPLING = {"min_new_tokens": count(0, 2**20), "no_repeat_ngram_size": count(0, 1000)}
VLLM_SAMPLING = {
    "min_tokens": count(0, 2**20),
    "presence_penalty": Number(-2, 2),
    "frequency_penalty": Number(-2, 2),
}

LARGEST_GROUP = 65536
FOLDER = r"[^\x00-\x1f\x7f-\x9f]{1,500}"
# See `schema.sections.OwnSolutions`. Their product is at most the 10,000,000 completions that a
# probe may have.
OWN_SOLUTIONS = {
    "problems": count(1, 100_000),
    "samples": count(1, 100),
    "keep": count(),
    "temperature": Number(0.01, 10),
    "model": Pattern(FOLDER, "the folder of a finished stage"),
}

RULES: dict[str, dict[str, Any]] = {}
RULES["recipe"] = {
    "seed": count(0, 2**32 - 2**16),
    "output_dir": Pattern(FOLDER, "the name of a folder"),
    "algorithm": OneOf(tuple(name for name in ALGORITHMS if name != "grpo")),
    "tools": ListOf(Tool(), once=True),
}
RULES["model"] = {
    "name_or_path": Pattern(FOLDER, "a Hub id or a folder"),
    "revision": Pattern(r"[\w./-]{1,100}", "a branch, a tag or a commit"),
    "dtype": DTYPES,
    "attn_implementation": OneOf(ATTENTION),
    "chat_template": Pattern(r"[\s\S]{1,60000}", "a template"),
    "chat_template_kwargs": Arguments(),
}
RULES["data"] = {
    **_same(count(), "validation worked"),
    "pass_rate": Span(SHARE),
    "own_solutions": Keys(OWN_SOLUTIONS),
    "dir": Pattern(r"(?!\w+://)" + FOLDER, "a folder"),
}
RULES["prompt"] = {"system": Pattern(r"[\s\S]{0,60000}", "a text")}
RULES["evaluate"] = {
    **_same(count(), "limit checkpoint_problems"),
    "engine": OneOf(("transformers", "vllm")),
    "batch_size": count(1, 65536),
    "max_new_tokens": count(1, 2**20),
    "samples": count(1, 10_000),
    "temperature": Number(0, 100),
    "top_p": Number(0, 1, above=True),
    "patience": count(0, MANY),
}
TRAINING = {
    "learning_rate": Number(0, 1, above=True),
    **_same(count(1, 65536), "per_device_train_batch_size gradient_accumulation_steps"),
    "num_train_epochs": Number(0, 1e6, above=True),
    "max_steps": count(1, MANY, -1),
    "warmup_steps": Either((count(0), Number(0, 1, below=True))),
    "optim": OneOf(OPTIMIZERS),
    **_same(Number(0, 1, below=True), "adam_beta1 adam_beta2"),
    "adam_epsilon": Number(1e-20, 1),  # anything smaller is 0 in float32, and 0 / 0 is not a number
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
    "temperature": Number(0.01, 10),
    "top_p": Number(0, 1, above=True),
    "top_k": count(0, 2**31 - 1),
    "min_p": Number(0, 1, below=True),
    "repetition_penalty": Number(0.01, 10),  # logits divided by less become infinite
    "generation_kwargs": Keys(TRANSFORMERS_SAMPLING | VLLM_SAMPLING),
    "cache_implementation": OneOf(("dynamic", "static")),
    "vllm_mode": OneOf(("colocate", "server")),
    "vllm_model_impl": OneOf(("vllm", "transformers")),
    "vllm_server_host": Pattern(r"[\w.:-]{1,253}", "the name or address of a host"),
    "vllm_server_port": count(1, 65535),
    "vllm_group_port": count(1024, 65535),
    "vllm_gpu_memory_utilization": Number(0, 1, above=True),
    "vllm_max_model_length": count(2, 2**24),
    "num_iterations": count(1, 1000),
    "epsilon": SHARE,
    "epsilon_high": Number(0, 1e6),
    "importance_sampling_level": OneOf(("token", "sequence")),
    "multi_objective_aggregation": OneOf(("sum_then_normalize", "normalize_then_sum")),
    "scale_rewards": OneOf(("group", "batch", "none")),
    "loss_type": OneOf(("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")),
    "beta": Number(0, 10),
    "vllm_importance_sampling_mode": OneOf(
        ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
    ),
}
DPO_LOSSES = (
    "sigmoid hinge ipo nca_pair robust bco_pair sppo_hard apo_zero apo_down discopop sft"
    " sigmoid_norm"
)
RULES["dpo"] = TRAINING | {
    "max_length": count(2, 2**20),
    "beta": Number(0, 10, above=True),
    "loss_type": ListOf(OneOf(tuple(DPO_LOSSES.split()))),
    "loss_weights": ListOf(Number(0, 1000)),
    "train_sampling_strategy": OneOf(("random", "sequential")),
}
RULES["adapter"] = {
    "r": count(1, 4096),
    "lora_alpha": count(1, 65536),
    "lora_dropout": Number(0, 1, below=True),
    "target_modules": Either((MODULES, OneOf(("all-linear",)))),
    "target_parameters": MODULES,
    "exclude_modules": MODULES,
    "modules_to_save": MODULES,
    "bias": OneOf(("none",)),
    "init_lora_weights": OneOf((True, "gaussian", "orthogonal")),
    "layers_to_transform": ListOf(count(0, 10_000), single=True),
    "layers_pattern": ListOf(MODULE, single=True),
    "rank_pattern": PerModule(count(1, 4096), PATTERNS),
    "alpha_pattern": PerModule(Number(0, 65536, above=True), PATTERNS),
}
RULES["quantization"] = {
    "bnb_4bit_compute_dtype": DTYPES,
    "bnb_4bit_quant_type": OneOf(("nf4", "fp4")),
    "bnb_4bit_quant_storage": OneOf(("uint8", "float16", "bfloat16", "float32")),
}

# Keys that may be null although trl's default is a number: null switches the limit off.
MAY_BE_NOTHING = {"max_length", "vllm_importance_sampling_clip_max"}
