"""What each key of a recipe may be: the one table of ranges and names, as types of pydantic.

The libraries' own classes check little: a negative learning rate trains away from the rewards,
`max_steps: 0` takes a step, and `top_p: 5` fails only after the warm start has trained. The types
of this file refuse such values before. Every other key is a number or a switch, as its field
declares, and the library's own class checks it. A field of any other type is refused: it may
upload, download code, open a port or write outside the run's folder, and a recipe may come from a
stranger (schema/refused_keys.py).
"""

from typing import Any

from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core import core_schema as core

from schema.value_types import (
    MANY,
    SWITCH,
    above,
    below,
    either,
    expected,
    integer,
    mapping,
    mapping_of,
    named,
    number,
    of_type,
    once,
    one_of,
    some,
    span,
    text,
    value_or_list,
    which_of_value_or_list,
)


def _same(kind: CoreSchema, keys: str) -> dict[str, CoreSchema]:
    """The same type for several keys, which spaces separate."""
    return dict.fromkeys(keys.split(), kind)


# The type of a field without one of its own here. None of these has a use for a negative number.
BY_FIELD = {"bool": SWITCH, "int": integer(0), "float": number(0, MANY)}
ANY_NUMBER = number(-1e18, 1e18)
FINITE = core.float_schema(strict=True, allow_inf_nan=False)
PLAIN = either(
    "a text, a number, true or false",
    core.str_schema(strict=True, max_length=200),
    core.bool_schema(strict=True),
    FINITE,
)
SHARE = number(0, 1)


# What `where` asks for in a column.
VALUE = either(
    "a value, a list of values, {min: …, max: …}, or {not: …}",
    core.str_schema(strict=True),
    core.bool_schema(strict=True),
    FINITE,
)
VALUES = value_or_list(VALUE, some(VALUE))


def _which_condition(value: Any) -> str:
    if isinstance(value, dict):
        return "[not]" if "not" in value else "[bounds]"
    return which_of_value_or_list(value)


def _lowest_first(bounds: dict) -> dict:
    if not bounds or bounds.get("min", -1e18) > bounds.get("max", 1e18):
        raise PydanticCustomError("expected", "{min: …, max: …}, the lower first")
    return bounds


CONDITION = core.tagged_union_schema(
    {
        "[value]": VALUE,
        "[list]": some(VALUE),
        "[not]": mapping({"not": VALUES}),
        "[bounds]": core.no_info_after_validator_function(
            _lowest_first, mapping({"min": ANY_NUMBER, "max": ANY_NUMBER})
        ),
    },
    _which_condition,
)
WHERE = mapping_of("a mapping such as {level: [4, 5]}", core.any_schema(), CONDITION)


# Plain names only: peft reads most of these as regular expressions, and a malicious one never ends.
_MODULE = r"\w[\w.]{0,200}"
MODULE = text(_MODULE, "the name of a module such as q_proj")
MODULES = some(MODULE)
# For the names of experts peft writes the prefix `.*\.`, which is no danger.
PATTERN = text(r"(\.\*\\\.)?" + _MODULE, "the name of a module such as q_proj")
PER_MODULE = "a mapping from modules' names to values"
# An argument of a chat template, but those that trl and transformers set.
ARGUMENT = text(
    r"(?!(messages|tools|documents|add_generation_prompt|(bos|eos|pad|unk)_token)$)[A-Za-z]\w{0,60}",
    "the name of a template's argument that a recipe may set",
)


DTYPES = one_of("float32", "bfloat16", "float16")

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
TRANSFORMERS_SAMPLING = {
    "min_new_tokens": integer(0, 2**20),
    "no_repeat_ngram_size": integer(0, 1000),
}
VLLM_SAMPLING = {
    "min_tokens": integer(0, 2**20),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
}

# The models that training/tiny_models.py builds without a download.
BUILDERS = ("tiny-qwen3", "tiny-qwen3-tools", "smollm2-135m-instruct")
LARGEST_GROUP = 65536
FOLDER = r"[^\x00-\x1f\x7f-\x9f]{1,500}"
# See `schema.sections.RejectionSampling`. At most a probe's 10,000,000 completions in all.
REJECTION_SAMPLING = {
    "problems": integer(1, 100_000),
    "samples": integer(1, 100),
    "keep": integer(),
    "temperature": number(0.01, 10),
    "model": text(FOLDER, "the folder of a finished stage"),
}

TYPES: dict[str, dict[str, CoreSchema]] = {}
TYPES["recipe"] = {
    "seed": integer(0, 2**32 - 2**16),
    "output_dir": text(FOLDER, "the name of a folder"),
    "teacher": text(FOLDER, "a Hub id or a folder"),
    "tools": once(some(one_of("calculator"))),
}
TYPES["model"] = {
    "name_or_path": text(FOLDER, "a Hub id or a folder"),
    "build": one_of(*BUILDERS),
    "revision": text(r"[\w./-]{1,100}", "a branch, a tag or a commit"),
    "dtype": DTYPES,
    "attn_implementation": one_of(*ATTENTION),
    "chat_template": text(r"[\s\S]{1,60000}", "a template"),
    "chat_template_kwargs": mapping_of(
        "a mapping from names to values, such as {enable_thinking: false}", ARGUMENT, PLAIN
    ),
}
TYPES["data"] = {
    "train": some(core.any_schema()),
    "validation": expected(
        "a number of problems from 1 up, or nothing for a fifth",
        core.int_schema(strict=True, ge=1, le=MANY),
    ),
    "worked": integer(),
    "pass_rate": span(SHARE),
    "dynamic_sampling": integer(1, 10),
    "rejection_sampling": mapping(REJECTION_SAMPLING),
    "dir": text(r"(?!\w+://)" + FOLDER, "a folder"),
}
TYPES["prompt"] = {"system": text(r"[\s\S]{0,60000}", "a text")}
TYPES["evaluate"] = {
    "benchmarks": of_type(list),
    "control": SWITCH,
    "limit": integer(),
    "checkpoint_problems": integer(0),
    "engine": one_of("transformers", "vllm"),
    "batch_size": integer(1, 65536),
    "max_new_tokens": integer(1, 2**20),
    "samples": integer(1, 10_000),
    "temperature": number(0, 100),
    "top_p": above(0, 1),
    "patience": integer(0, MANY),
}
TRAINING = {
    "learning_rate": above(0, 1),
    **_same(integer(1, 65536), "per_device_train_batch_size gradient_accumulation_steps"),
    "num_train_epochs": above(0, 1e6),
    "max_steps": either("a whole number from 1 up, or -1", integer(), integer(-1, -1)),
    "warmup_steps": either(
        "a whole number from 0 up, or a share from 0 to below 1", integer(0), below(0, 1)
    ),
    "optim": one_of(*OPTIMIZERS),
    **_same(below(0, 1), "adam_beta1 adam_beta2"),
    "adam_epsilon": number(1e-20, 1),  # anything smaller is 0 in float32, and 0 / 0 is not a number
    "lr_scheduler_type": one_of(*SCHEDULES.split()),
    "lr_scheduler_kwargs": mapping(_same(BY_FIELD["float"], SCHEDULE_ARGUMENTS)),
    **_same(integer(), "logging_steps save_steps save_total_limit"),
    "save_strategy": one_of("steps", "no"),
    "report_to": value_or_list(one_of(*TRACKERS), some(one_of(*TRACKERS[1:]))),
    "gradient_checkpointing_kwargs": mapping({"use_reentrant": SWITCH}),
}
TYPES["sft"] = TRAINING | {
    "max_length": integer(2, 2**20),
    "loss_type": one_of("nll", "dft"),
    "train_sampling_strategy": one_of("random", "sequential"),
}
SAMPLING = {
    "temperature": number(0.01, 10),
    "top_p": above(0, 1),
    "top_k": integer(0, 2**31 - 1),
    "min_p": below(0, 1),
    "repetition_penalty": number(0.01, 10),  # logits divided by less become infinite
    "cache_implementation": one_of("dynamic", "static"),
}
TYPES["distill"] = (
    TRAINING
    | SAMPLING
    | {
        "beta": SHARE,
        "generation_kwargs": mapping(TRANSFORMERS_SAMPLING),
    }
)
TYPES["grpo"] = (
    TRAINING
    | SAMPLING
    | {
        "num_generations": integer(2, LARGEST_GROUP),
        "max_completion_length": integer(1, 2**20),
        "generation_batch_size": integer(2, 2**24),
        **_same(integer(1, 65536), "steps_per_generation per_device_eval_batch_size"),
        "eval_steps": integer(),
        "max_tool_calling_iterations": integer(1, 1000),
        "generation_kwargs": mapping(TRANSFORMERS_SAMPLING | VLLM_SAMPLING),
        "vllm_mode": one_of("colocate", "server"),
        "vllm_model_impl": one_of("vllm", "transformers"),
        "vllm_server_host": text(r"[\w.:-]{1,253}", "the name or address of a host"),
        "vllm_server_port": integer(1, 65535),
        "vllm_group_port": integer(1024, 65535),
        "vllm_gpu_memory_utilization": above(0, 1),
        "vllm_max_model_length": integer(2, 2**24),
        "num_iterations": integer(1, 1000),
        "epsilon": SHARE,
        "epsilon_high": number(0, 1e6),
        "importance_sampling_level": one_of("token", "sequence"),
        "multi_objective_aggregation": one_of("sum_then_normalize", "normalize_then_sum"),
        "scale_rewards": one_of("group", "batch", "none"),
        "loss_type": one_of("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
        "beta": number(0, 10),
        "vllm_importance_sampling_mode": one_of(
            "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
        ),
    }
)
TRUE = core.chain_schema([SWITCH, core.literal_schema([True])])  # the latter alone would take 1
ALL_LINEAR = expected(
    "a list of modules' names, or all-linear", core.literal_schema(["all-linear"])
)
TYPES["adapter"] = {
    "r": integer(1, 4096),
    "lora_alpha": integer(1, 65536),
    "lora_dropout": below(0, 1),
    "target_modules": value_or_list(ALL_LINEAR, MODULES),
    "target_parameters": MODULES,
    "exclude_modules": MODULES,
    "modules_to_save": MODULES,
    "bias": one_of("none"),
    "init_lora_weights": named(
        (True, "gaussian", "orthogonal"),
        core.union_schema([TRUE, core.literal_schema(["gaussian", "orthogonal"])]),
    ),
    "layers_to_transform": value_or_list(integer(0, 10_000), some(integer(0, 10_000))),
    "layers_pattern": value_or_list(MODULE, MODULES),
    "rank_pattern": mapping_of(PER_MODULE, PATTERN, integer(1, 4096)),
    "alpha_pattern": mapping_of(PER_MODULE, PATTERN, above(0, 65536)),
}
TYPES["quantization"] = {
    "bnb_4bit_compute_dtype": DTYPES,
    "bnb_4bit_quant_type": one_of("nf4", "fp4"),
    "bnb_4bit_quant_storage": one_of("uint8", "float16", "bfloat16", "float32"),
}

# Keys that may be null although trl's default is a number: null switches the limit off.
MAY_BE_NOTHING = {"max_length", "vllm_importance_sampling_clip_max"}
