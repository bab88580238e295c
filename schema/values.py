"""What each key of a recipe may be: the one table of ranges and names.

The libraries' own classes check little: a negative learning rate trains away from the rewards, `max_steps: 0` takes a
step, and `top_p: 5` fails only after the warm start has trained. Other fields upload, download code, open a port or
write outside the run's folder; a recipe may come from a stranger and must not ask for any of that. So every field is
either in this table, or a plain switch (true or false), or refused (schema/refused_keys.py), and
tests/schema/test_values.py notices when a library adds one.
"""

from typing import Any, get_args

from schema.rules import (
    MANY,
    MODULE,
    MODULES,
    SWITCH,
    Each,
    Either,
    Keys,
    Number,
    OneOf,
    Pattern,
    PerModule,
    Span,
    count,
)
from schema.stages import ALGORITHMS


def refusal(section: str, key: str, value: Any, kind: Any, default: Any) -> str | None:
    """What is wrong with the value of a key, or None.

    Args:
        kind: the type that the field's class declares; `default`: its value where the recipe does not set it.
    """
    if value is None:
        nothing = default is None or key in MAY_BE_NOTHING
        return None if nothing else "has no value: give one, or leave the key out"
    rule = RULES[section].get(key) or (SWITCH if kind is bool or bool in get_args(kind) else None)
    return rule.refusal(value) if rule else "no recipe may set it"


SHARE = Number(0, 1)
DTYPES = OneOf(("float32", "bfloat16", "float16"))

# These trackers write local files, or nothing.
LOCAL_TRACKERS = ("none", "tensorboard", "trackio")
REMOTE_TRACKERS = ("wandb", "mlflow", "comet_ml", "swanlab")
TRACKERS = (*LOCAL_TRACKERS, *REMOTE_TRACKERS)
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")  # not 0.0.0.0: a server there listens to other machines

OPTIMIZERS = (
    *("adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop"),
    # By bitsandbytes.
    *("adamw_8bit", "adamw_bnb_8bit", "ademamix", "ademamix_8bit", "lion_32bit", "lion_8bit"),
    *("paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit", "paged_ademamix_8bit"),
    *("paged_lion_32bit", "paged_lion_8bit", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit"),
)
_MIN_LR = {"min_lr": SHARE, "min_lr_rate": SHARE, "num_cycles": Number(0, 1000, above=True)}
SCHEDULES = {  # each with the keys of lr_scheduler_kwargs that it takes
    "linear": {},
    "cosine": {"num_cycles": Number(0, 1000, above=True)},
    "cosine_with_restarts": {"num_cycles": count(1, 1000)},
    "polynomial": {"lr_end": SHARE, "power": Number(0, 100, above=True)},
    "constant": {},
    "constant_with_warmup": {},
    "inverse_sqrt": {"timescale": count()},
    "cosine_with_min_lr": _MIN_LR,
    "cosine_warmup_with_min_lr": _MIN_LR | {"warmup_lr_rate": SHARE},
    "warmup_stable_decay": {"num_decay_steps": count(), "num_stable_steps": count(0), "min_lr_ratio": SHARE},
}
# flash_attention_2 and _3 are refused unless their package is installed: transformers would download a kernel instead.
ATTENTION = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3")
BY_TRANSFORMERS = {"min_new_tokens": count(0, 2**20), "no_repeat_ngram_size": count(0, 1000)}
BY_VLLM = {"min_tokens": count(0, 2**20), "presence_penalty": Number(-2, 2), "frequency_penalty": Number(-2, 2)}

# The orders in which GRPO may take its problems. "shuffled" is trl's own, "easy first" is by falling pass rate.
ORDERS = ("shuffled", "easy first")
LARGEST_GROUP = 65536
# A file's name has 255 bytes at most, and a letter up to four.
FOLDER = r"(?!.*[^/]{256})(?!(.*/)?(?=[^/]{64})[^/]*[^/\x00-\x7f])[^\x00-\x1f\x7f-\x9f]{1,500}"
# See `schema.sections.OwnSolutions`. Their product is at most the 10,000,000 completions that a probe may have.
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
    "rounds": count(2, 1000),
    "algorithm": OneOf(tuple(each for each in ALGORITHMS if each != "grpo")),
}
RULES["model"] = {
    "name_or_path": Pattern(FOLDER, "a Hub id or a folder"),
    "revision": Pattern(r"[\w./-]{1,100}", "a branch, a tag or a commit"),
    "dtype": DTYPES,
    "attn_implementation": OneOf(ATTENTION),
    "chat_template": Pattern(r"[\s\S]{1,60000}", "a template"),
}
RULES["data"] = {
    "validation": count(1),
    "worked": count(1),
    "pass_rate": Span(SHARE),
    "order": OneOf(ORDERS),
    "own_solutions": Keys(OWN_SOLUTIONS),
    "dir": Pattern(r"(?!\w+://)" + FOLDER, "a folder"),
}
RULES["prompt"] = {"system": Pattern(r"[\s\S]{0,60000}", "a text")}
RULES["evaluate"] = {
    "limit": count(1),
    "engine": OneOf(("transformers", "vllm")),
    "batch_size": count(1, 65536),
    "max_new_tokens": count(1, 2**20),
    "samples": count(1, 10_000),
    "temperature": Number(0, 100),
    "checkpoint_problems": count(1),
    "patience": count(0, MANY),
}
TRAINING = {
    "learning_rate": Number(0, 1, above=True),
    "per_device_train_batch_size": count(1, 65536),
    "gradient_accumulation_steps": count(1, 65536),
    "num_train_epochs": Number(0, 1e6, above=True),
    "max_steps": count(1, MANY, -1),
    "warmup_steps": Either((count(0), Number(0, 1, below=True))),
    "optim": OneOf(OPTIMIZERS),
    "weight_decay": SHARE,
    "adam_beta1": Number(0, 1, below=True),
    "adam_beta2": Number(0, 1, below=True),
    "adam_epsilon": Number(1e-20, 1),  # anything smaller is 0 in float32, and 0 / 0 is not a number
    "max_grad_norm": Number(0, 1e9),
    "lr_scheduler_type": OneOf(tuple(SCHEDULES)),
    "lr_scheduler_kwargs": Keys({key: kind for known in SCHEDULES.values() for key, kind in known.items()}),
    "logging_steps": count(),
    "save_strategy": OneOf(("steps", "no")),
    "save_steps": count(),
    "save_total_limit": count(),
    "report_to": Either((OneOf(TRACKERS), Each(OneOf(tuple(each for each in TRACKERS if each != "none"))))),
    "torch_empty_cache_steps": count(),
    "pad_to_multiple_of": Either((OneOf(("auto",)), count(1, 4096))),
    "ddp_timeout": count(1, 10**7),
    "gradient_checkpointing_kwargs": Keys({"use_reentrant": SWITCH}),
    "router_aux_loss_coef": SHARE,
}
RULES["sft"] = TRAINING | {
    "max_length": count(2, 2**20),
    "loss_type": OneOf(("nll", "dft")),
    "neftune_noise_alpha": Number(0, 100),
    "label_smoothing_factor": Number(0, 1, below=True),
    "train_sampling_strategy": OneOf(("random", "sequential")),
}
RULES["reward_model"] = {key: rule for key, rule in TRAINING.items() if key != "router_aux_loss_coef"} | {
    "max_length": count(2, 2**20),
    "center_rewards_coefficient": Number(0, 1e6, above=True),
    "neftune_noise_alpha": Number(0, 100),
}
RULES["grpo"] = TRAINING | {
    "num_generations": count(2, LARGEST_GROUP),
    "max_completion_length": count(1, 2**20),
    "generation_batch_size": count(2, 2**24),
    "steps_per_generation": count(1, 65536),
    "per_device_eval_batch_size": count(1, 65536),
    "eval_steps": count(),
    "temperature": Number(0.01, 10),
    "top_p": Number(0, 1, above=True),
    "top_k": count(0, 2**31 - 1),
    "min_p": Number(0, 1, below=True),
    "repetition_penalty": Number(0, 10, above=True),
    "generation_kwargs": Keys(BY_TRANSFORMERS | BY_VLLM),
    "cache_implementation": OneOf(("dynamic", "static")),
    "vllm_mode": OneOf(("colocate", "server")),
    "vllm_model_impl": OneOf(("vllm", "transformers")),
    "vllm_server_host": Pattern(r"[\w.:-]{1,253}", "the name or address of a host"),
    "vllm_server_port": count(1, 65535),
    "vllm_group_port": count(1024, 65535),
    "vllm_server_timeout": Number(0, 86400, above=True),
    "vllm_gpu_memory_utilization": Number(0, 1, above=True),
    "vllm_max_model_length": count(2, 2**24),
    "vllm_tensor_parallel_size": count(1, 1024),
    "beta": Number(0, 10),
    "num_iterations": count(1, 1000),
    "epsilon": SHARE,
    "epsilon_high": Number(0, 1e6),
    "delta": Number(1, 1e6, above=True),
    "sapo_temperature_neg": Number(0, 1000, above=True),
    "sapo_temperature_pos": Number(0, 1000, above=True),
    "vespo_k_pos": Number(0, 100),
    "vespo_lambda_pos": Number(0, 100, above=True),
    "vespo_k_neg": Number(0, 100),
    "vespo_lambda_neg": Number(0, 100, above=True),
    "importance_sampling_level": OneOf(("token", "sequence")),
    "multi_objective_aggregation": OneOf(("sum_then_normalize", "normalize_then_sum")),
    "scale_rewards": OneOf(("group", "batch", "none")),
    "loss_type": OneOf(("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")),
    "top_entropy_quantile": Number(0, 1, above=True),
    "entropy_coef": Number(0, 10),
    "entropy_coef_min": Number(0, 10),
    "entropy_coef_max": Number(0, 10),
    "entropy_coef_delta": Number(0, 1, above=True),
    "entropy_target": Number(0, 20, above=True),
    "vllm_importance_sampling_mode": OneOf(("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")),
    "vllm_importance_sampling_clip_max": Number(1, 1e6),
    "vllm_importance_sampling_clip_min": Number(0, 1, below=True),
    "off_policy_mask_threshold": Number(0, 1000, above=True),
}
DPO_LOSSES = (
    *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired"),
    *("apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
)
RULES["dpo"] = TRAINING | {
    "max_length": count(2, 2**20),
    "beta": Number(0, 10, above=True),
    "loss_type": Each(OneOf(DPO_LOSSES)),
    "loss_weights": Each(Number(0, 1000)),
    "ld_alpha": SHARE,
    "f_divergence_type": OneOf(("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence")),
    "f_alpha_divergence_coef": Number(0, 10, above=True),
    "label_smoothing": Number(0, 0.5, below=True),
    "discopop_tau": Number(0, 1000, above=True),
    "train_sampling_strategy": OneOf(("random", "sequential")),
}
RULES["adapter"] = {
    "r": count(1, 4096),
    "lora_alpha": count(1, 65536),
    "lora_dropout": Number(0, 1, below=True),
    "target_modules": Either((MODULES, OneOf(("all-linear",)))),
    "exclude_modules": MODULES,
    "modules_to_save": MODULES,
    "bias": OneOf(("none",)),
    "init_lora_weights": OneOf((True, "gaussian", "orthogonal")),
    "layers_to_transform": Each(count(0, 10_000), single=True),
    "layers_pattern": Each(MODULE, single=True),
    "rank_pattern": PerModule(count(1, 4096)),
    "alpha_pattern": PerModule(Number(0, 65536, above=True)),
}
RULES["quantization"] = {
    "llm_int8_threshold": Number(0, 1000),
    "bnb_4bit_compute_dtype": DTYPES,
    "bnb_4bit_quant_type": OneOf(("nf4", "fp4")),
    "bnb_4bit_quant_storage": OneOf(("uint8", "float16", "bfloat16", "float32")),
}

# Keys for which an empty value is allowed although trl's default is a number: there it switches the limit off.
MAY_BE_NOTHING = {"max_length", "vllm_importance_sampling_clip_max"}
