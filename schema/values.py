"""What each key of a recipe may be: the one table of ranges, of names, and of keys that a recipe does not set.

The libraries' own classes check little: a learning rate below 0 trains away from the rewards, `max_steps: 0` takes a
step, `top_p: 5` fails once the warm start has trained. And some of their fields upload, download code, open a port or
write where a run has no business, which a recipe, that may be a stranger's, must not ask for. So a field of theirs is
either here, or a plain switch (true or false), or refused; tests/schema/test_values.py notices when a library adds one.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from schema.faults import nearest

# What is meant by a name of elsewhere, where the nearest would be another thing.
KNOWN_AS = {
    "gspo": "GSPO is importance_sampling_level: sequence, with loss_type: grpo",
    "adamw": "did you mean adamw_torch?",
    "True": "did you mean group?",
    "False": "did you mean none?",
}
MANY = 10**9  # of steps, tokens, problems: beyond it no machine goes


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`; `above`: not `low` itself; `below`: not `high`; `also`: values beside."""

    low: float
    high: float
    above: bool = False
    below: bool = False
    whole: bool = False
    also: tuple = ()

    def fault(self, value: Any) -> str | None:
        if value in self.also and not isinstance(value, bool):
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = fits and (isinstance(value, int) or math.isfinite(value))
        fits = fits and (not self.whole or isinstance(value, int))
        fits = fits and (self.low < value if self.above else self.low <= value)
        fits = fits and (value < self.high if self.below else value <= self.high)
        return None if fits else f"expected {self}, got {value!r:.80}"

    def __str__(self) -> str:
        words = "a whole number" if self.whole else "a number"
        low = f"above {self.low:g}" if self.above else f"from {self.low:g}"
        high = "up" if self.high == MANY else f"to but not {self.high:g}" if self.below else f"to {self.high:,}"
        return f"{words} {low} {high}" + "".join(f", or {each}" for each in self.also)


@dataclass(frozen=True)
class OneOf:
    names: tuple

    def fault(self, value: Any) -> str | None:
        if any(type(value) is type(each) and value == each for each in self.names):  # 1 is not true
            return None
        meant = KNOWN_AS.get(str(value))
        hint = f"; {meant}" if meant else nearest(value, self.names)
        return f"{value!r:.80} is not one of {', '.join(map(str, self.names))}{hint}"


@dataclass(frozen=True)
class Pattern:
    """A text that matches, described in words."""

    pattern: str
    words: str

    def fault(self, value: Any) -> str | None:
        fits = isinstance(value, str) and re.fullmatch(self.pattern, value)
        return None if fits else f"expected {self.words}, got {value!r:.80}"


@dataclass(frozen=True)
class Each:
    """A list with something in it, each of a kind; or, where `single`, one of that kind alone."""

    kind: Any
    single: bool = False

    def fault(self, value: Any) -> str | None:
        values = [value] if self.single and not isinstance(value, list) else value
        if not isinstance(values, list) or not values:
            return f"expected a list with something in it, got {value!r:.80}"
        return next(filter(None, map(self.kind.fault, values)), None)


@dataclass(frozen=True)
class Keys:
    """A mapping of such keys to such values."""

    known: Mapping[str, Any]

    def fault(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected a mapping, got {value!r:.80}"
        for key, each in value.items():
            if key not in self.known:
                return f"unknown key {key!r}{nearest(key, self.known)}; there are: {', '.join(self.known)}"
            if fault := self.known[key].fault(each):
                return f"{key}: {fault}"
        return None


@dataclass(frozen=True)
class Either:
    kinds: tuple

    def fault(self, value: Any) -> str | None:
        faults = [kind.fault(value) for kind in self.kinds]
        return None if None in faults else faults[0]


class Switch:
    def fault(self, value: Any) -> str | None:
        if isinstance(value, bool):
            return None
        old = str(value).lower() in ("yes", "no", "on", "off")
        return f"expected true or false, got {value!r:.80}" + ("; YAML 1.2 reads that as text" if old else "")


@dataclass(frozen=True)
class PerModule:
    """A mapping of modules' names to such values."""

    kind: Any

    def fault(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not value:
            return f"expected a mapping of modules' names, got {value!r:.80}"
        return MODULES.fault(list(value)) or next(filter(None, map(self.kind.fault, value.values())), None)


def fault(section: str, key: str, value: Any, kind: Any, default: Any) -> str | None:
    """What is wrong with a value, or None.

    Args:
        kind: the field's type by its class; `default`: its value where nothing is set.
    """
    if value is None:
        nothing = default is None or key in MAY_BE_NOTHING
        return None if nothing else "there is nothing behind it: give a value, or leave it out"
    rule = RULES[section].get(key) or (SWITCH if kind is bool or bool in get_args(kind) else None)
    return rule.fault(value) if rule else "a recipe does not set it"


def count(low: int = 1, high: int = MANY, *also) -> Number:
    return Number(low, high, whole=True, also=also)


SHARE = Number(0, 1)
SWITCH = Switch()
# Plain names: peft reads most of these as regular expressions, and a stranger's may take for ever.
MODULE = Pattern(r"\w[\w.]{0,200}", "the name of a module such as q_proj")
MODULES = Each(MODULE)
DTYPES = OneOf(("float32", "bfloat16", "float16"))

# Local files, or nothing: these trackers write where the run is.
LOCAL_TRACKERS = ("none", "tensorboard", "trackio")
REMOTE_TRACKERS = ("wandb", "mlflow", "comet_ml", "swanlab")
TRACKERS = (*LOCAL_TRACKERS, *REMOTE_TRACKERS)
LOCAL_HOSTS = ("127.0.0.1", "localhost", "0.0.0.0", "::1")

OPTIMIZERS = (
    *("adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop"),
    # By bitsandbytes.
    *("adamw_8bit", "adamw_bnb_8bit", "ademamix", "ademamix_8bit", "lion_32bit", "lion_8bit"),
    *("paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit", "paged_ademamix_8bit"),
    *("paged_lion_32bit", "paged_lion_8bit", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit"),
)
_MIN_LR = {"min_lr": SHARE, "min_lr_rate": SHARE, "num_cycles": Number(0, 1000, above=True)}
SCHEDULES = {  # and what each may be told beside
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
# flash_attention_2 and _3 are refused where their package is not installed: transformers would fetch a kernel instead.
ATTENTION = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3")
BY_TRANSFORMERS = {"min_new_tokens": count(0, 2**20), "no_repeat_ngram_size": count(0, 1000)}
BY_VLLM = {"min_tokens": count(0, 2**20), "presence_penalty": Number(-2, 2), "frequency_penalty": Number(-2, 2)}

FOLDER = r"(?!.*[^/]{256})[^\x00-\x1f\x7f-\x9f]{1,500}"

RULES: dict[str, dict[str, Any]] = {}
RULES["recipe"] = {
    "seed": count(0, 2**32 - 2**16),
    "output_dir": Pattern(FOLDER, "the name of a folder"),
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
    "held_out": count(1),
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
    "adam_epsilon": Number(1e-20, 1),  # a smaller one is 0 in float32, and 0 / 0 no number
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
RULES["grpo"] = TRAINING | {
    "num_generations": count(2, 65536),
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

# Where nothing is, something else is meant than "not set": trl's default is a number.
MAY_BE_NOTHING = {"max_length", "vllm_importance_sampling_clip_max"}


def _said(reasons: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in reasons.items() for name in names.split()}


# Where a field of a library is decided elsewhere, say where; and why, where nowhere.
_NOT_IN_TRAINING = _said(
    {
        "set `output_dir` at the top of the recipe": "output_dir",
        "set `seed` at the top of the recipe": "seed data_seed",
        "set these under `model`": "model_init_kwargs",
        "code from a model repository is never run": "trust_remote_code",
        "a run uploads nothing; when it is done: `hf upload you/your-model outputs/<recipe>/grpo`": "push_to_hub "
        "hub_model_id hub_private_repo hub_strategy hub_always_push hub_revision",
        "a recipe is saved beside its run; a token belongs into the environment (HF_TOKEN)": "hub_token",
        "a run uploads nothing": "trackio_space_id trackio_bucket_id trackio_static_space_id",
        "a run's name is its folder": "run_name project",
        "an unfinished run is resumed by itself": "resume_from_checkpoint",
        "a run must be able to go on where it stopped": "ignore_data_skip save_only_model enable_jit_checkpoint "
        "restore_callback_states_from_checkpoint",
        "name a launcher: ACCELERATE=ddp, zero2, zero3 or fsdp2": "deepspeed fsdp fsdp_config parallelism_config "
        "accelerator_config local_rank ddp_backend ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph "
        "ddp_find_unused_parameters save_on_each_node log_on_each_node",
        "the machine decides; CUDA_VISIBLE_DEVICES=-1 runs on the CPU": "use_cpu",
        "the rows are few and in memory": "dataloader_num_workers dataloader_persistent_workers "
        "dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order",
        "a stage gives its trainer the columns it needs": "remove_unused_columns label_names length_column_name",
        "the stage says what is run": "do_train do_eval do_predict",
        "set grpo.eval_steps, and the rest follows": "eval_strategy eval_delay eval_on_start load_best_model_at_end "
        "metric_for_best_model greater_is_better prediction_loss_only eval_do_concat_batches eval_use_gather_object "
        "eval_accumulation_steps include_for_metrics batch_eval_metrics bf16_full_eval fp16_full_eval",
        "float16 overflows in long completions and ends in NaN; bfloat16 is taken where the machine has it": "fp16",
        "set per_device_train_batch_size; `make memory` tells what fits": "auto_find_batch_size",
        "a run shows what it does, and leaves metrics.jsonl": "logging_strategy logging_nan_inf_filter disable_tqdm "
        "log_level log_level_replica include_num_input_tokens_seen",
        "`make memory` and `make probe-memory` tell": "skip_memory_metrics",
        "a gradient that is not finite stops the run already": "debug",
        "it starts compilers, and a resumed run may compute otherwise": "torch_compile torch_compile_backend "
        "torch_compile_mode",
        "liger-kernel is no part of this environment": "use_liger_kernel liger_kernel_config",
        "training keeps no cache; sampling has its own": "use_cache",
        "only optimizers that are not installed ask for it": "optim_target_modules",
        "most optimizers ignore it without a word": "optim_args",
    }
)
RESERVED: dict[str, dict[str, str]] = {
    "sft": _NOT_IN_TRAINING
    | _said(
        {
            "set `model.chat_template`": "chat_template_path eos_token pad_token",
            "the stage tokenises the rows itself": "dataset_text_field dataset_kwargs dataset_num_proc",
            "a row that is too long is left out, not cut": "truncation_mode",
            "rows are short, and it wants flash attention": "packing packing_strategy padding_free eval_packing",
            "the loss is on the solution alone": "completion_only_loss assistant_only_loss",
            "the warm start is judged afterwards, by `make evaluate`": "eval_steps per_device_eval_batch_size",
            "it wants a GPU and is not tried here": "activation_offloading",
        }
    ),
    "grpo": _NOT_IN_TRAINING
    | _said(
        {
            "weights stand beside each reward under `rewards`": "reward_weights",
            "evaluation would not know them; set `model.chat_template`": "chat_template_kwargs",
            "evaluation would not know it; pay for the form": "vllm_structured_outputs_regex",
            "a run uploads nothing, and this would be public": "log_completions_hub_repo",
            "completions are in the run's folder": "num_completions_to_print log_unique_prompts log_multimodal",
            "set vllm_server_host and vllm_server_port": "vllm_server_base_url",
            "set vllm_importance_sampling_clip_max": "vllm_importance_sampling_cap",
            "a held-out problem gets one greedy answer": "num_generations_eval",
            "the policy that is trained must be the one that sampled": "neftune_noise_alpha",
            "GRPO has no labels": "label_smoothing_factor average_tokens_across_devices",
            "trl's sampler keeps groups whole": "train_sampling_strategy dataloader_drop_last",
            "a checkpoint would lack the reference": "sync_ref_model ref_model_mixup_alpha ref_model_sync_steps",
            "there are no tools here": "max_tool_calling_iterations",
            "it casts the weights that are trained; set use_vllm": "use_transformers_continuous_batching "
            "transformers_continuous_batching_config use_transformers_paged",
        }
    ),
    "adapter": _said(
        {
            "it is always CAUSAL_LM here": "task_type",
            "it is always LoRA here": "peft_type",
            "set `model.name_or_path`": "base_model_name_or_path",
            "set `model.revision`": "revision",
            "it imports what it names": "megatron_core megatron_config auto_mapping",
            "it reads and writes files, or changes the base": "loftq_config eva_config corda_config lora_ga_config "
            "kasa_config layer_replication",
            "an adapter here is plain LoRA": "velora_config monteclora_config arrow_config use_bdlora use_qalora "
            "qalora_group_size alora_invocation_tokens trainable_token_indices runtime_config",
            "peft sees it from the layer": "fan_in_fan_out",
            "set target_modules": "target_parameters",
            "it would train nothing": "inference_mode",
            "peft writes it": "peft_version",
        }
    ),
    "quantization": _said(
        {
            "the head stays as it is, and all other layers are quantised": "llm_int8_skip_modules",
            "the stage places the weights": "llm_int8_enable_fp32_cpu_offload",
            "weights under an adapter are not trained": "llm_int8_has_fp16_weight",
        }
    ),
}

# Names that were a library's once, or are another's, and what says the same here.
GONE = {
    "max_prompt_length": "trl has no limit on prompts any more; those that leave no room for a completion are left out",
    "warmup_ratio": "set warmup_steps: a number below 1 is the share",
    "torch_dtype": "set model.dtype",
    "max_seq_length": "set sft.max_length",
    "evaluation_strategy": "set grpo.eval_steps",
    "vllm_guided_decoding_regex": "evaluation would not know it; pay for the form",
    "vllm_device": "vLLM shares the GPUs of the run; see grpo.vllm_mode",
    "max_new_tokens": "set grpo.max_completion_length",
    "max_tokens": "set grpo.max_completion_length",
    "kl_coef": "set grpo.beta",
    "epsilon_low": "set grpo.epsilon",
    "group_size": "set grpo.num_generations",
    "no_cuda": "CUDA_VISIBLE_DEVICES=-1 runs on the CPU",
    "group_by_length": "set sft.train_sampling_strategy",
    "overwrite_output_dir": "a run is never overwritten: delete its folder",
    "logging_dir": "a run's files lie in its own folder",
    "save_safetensors": "weights are always saved as safetensors",
    "use_liger_loss": "trl's own loss needs no logits of all tokens",
    "fp16_backend": "it is gone from transformers",
    "half_precision_backend": "it is gone from transformers",
    "tokenizer_name": "the tokenizer is the model's",
    "reward_funcs": "rewards stand under `rewards`",
    "use_peft": "an `adapter` section makes it one",
    "lora_r": "set adapter.r",
    "lora_target_modules": "set adapter.target_modules",
    "quantization_config": "set `quantization`",
    "load_in_4bit": "set quantization.load_in_4bit",
    "load_in_8bit": "set quantization.load_in_8bit",
}
