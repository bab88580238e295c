"""Keys that no recipe may set: fields of the libraries that are decided elsewhere, do harm or were
not tried, names that are gone, and names of other libraries. Where a user needs it, the reason and
what to set instead."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from schema import configs


def _by_name(table: str) -> dict[str, str]:
    """Name to reason. A row of the table is `reason <- names`; an indented line continues it."""
    reasons = {}
    for row in table.strip().replace("\n  ", " ").split("\n"):
        reason, _, names = row.partition(" <- ")
        reasons |= dict.fromkeys(names.split(), reason)
    return reasons


REASONS = _by_name("""
set model.dtype: float16, which is enough <- fp16
code from a model repository is never run <- trust_remote_code
a run uploads nothing; afterwards: `make merge`, then `hf upload you/your-model
  outputs/<recipe>/merged` <- push_to_hub hub_model_id
a recipe is saved beside its run; keep the token in the environment (HF_TOKEN) <- hub_token
a run is named after its folder <- run_name project
an unfinished run is always resumed <- resume_from_checkpoint
SIGTERM saves the step without it <- enable_jit_checkpoint
name a launcher: ACCELERATE=ddp, zero2, zero3 or fsdp2 <- deepspeed fsdp fsdp_config
set vllm_server_host and vllm_server_port <- vllm_server_base_url
set vllm_importance_sampling_clip_max <- vllm_importance_sampling_cap
it casts the weights being trained; leave it out or, without quantization, set use_vllm <-
  use_transformers_continuous_batching use_transformers_paged
""")
# Numbers and switches that are not offered. A field whose type may name a file, an address or code
# needs no place here: see `reserved`.
NOT_OFFERED = """
activation_offloading assistant_only_loss auto_find_batch_size batch_eval_metrics bf16_full_eval
cast_lm_head_to_fp32 completion_only_loss data_seed dataloader_in_order dataloader_num_workers
dataloader_persistent_workers dataloader_prefetch_factor dataset_num_proc ddp_broadcast_buffers
ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph disable_tqdm do_eval do_predict
do_train eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_packing
eval_use_gather_object fan_in_fan_out fp16_full_eval greater_is_better hub_always_push
hub_private_repo ignore_data_skip include_num_input_tokens_seen inference_mode
llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight load_best_model_at_end local_rank
log_multimodal log_on_each_node log_unique_prompts logging_nan_inf_filter num_completions_to_print
num_generations_eval packing padding_free prediction_loss_only qalora_group_size
ref_model_mixup_alpha ref_model_sync_steps remove_unused_columns
restore_callback_states_from_checkpoint save_on_each_node save_only_model seed skip_memory_metrics
sync_ref_model torch_compile use_cache use_cpu use_liger_kernel use_qalora
"""
# Fields that some sections have a use for, and these have not.
ONLY_ELSEWHERE = {
    "sft": ["eval_steps", "per_device_eval_batch_size"],
    "grpo": ["average_tokens_across_devices", "dataloader_drop_last", "neftune_noise_alpha"],
}
ONLY_ELSEWHERE["grpo"] += ["label_smoothing_factor"]
# Distillation samples by transformers alone, completions of the length that GRPO's have.
ONLY_ELSEWHERE["distill"] = [*ONLY_ELSEWHERE["sft"], *ONLY_ELSEWHERE["grpo"]]
ONLY_ELSEWHERE["distill"] += ["max_completion_length", "max_tool_calling_iterations"]
ONLY_ELSEWHERE["distill"] += ["log_completions", "use_vllm", "vllm_enable_sleep_mode"]
ONLY_ELSEWHERE["distill"] += ["vllm_server_port", "vllm_server_timeout", "vllm_group_port"]
ONLY_ELSEWHERE["distill"] += ["vllm_gpu_memory_utilization", "vllm_max_model_length"]
ONLY_ELSEWHERE["distill"] += ["vllm_tensor_parallel_size"]


@cache
def reserved(section: str) -> dict[str, str]:
    """Name to reason, which may be empty, of every field that a section of a library has and no
    recipe may set: those above, and all of a type that may name a file, an address or code, unless
    schema/values.py says what they may be."""
    if section not in configs.SECTIONS:
        return {}
    refused = {*REASONS, *NOT_OFFERED.split(), *ONLY_ELSEWHERE.get(section, ())}
    reasons = {}
    for key, field in configs.fields(section).items():
        if key in refused or not configs.type_of(section, key, field.type):
            reasons[key] = REASONS.get(key, "")
    return reasons


# Names that are gone, and what to do instead.
GONE = _by_name("""
the chat template's end token ends a completion: leave it out <- stop stop_words stop_strings
  stop_token_ids
write model.name_or_path <- from_pretrained FastLanguageModel
write num_train_epochs, and max_steps: -1 beside it <- epochs
verl's sections are other ones here: docs/migrate.md has their keys <- actor_rollout_ref trainer
it is called data.rejection_sampling now <- own_solutions
trl has no limit on prompts any more; one that leaves no room is left out <- max_prompt_length
GRPO shuffles its problems; data.pass_rate chooses them <- order
leave it out; recipes/tiny-reinforce.yaml has RLOO's gradient as keys of grpo <- algorithm
leave it out; docs/examples/dpo.py trains with DPO on what a finished run sampled <- dpo
""")
# Rewards that are no longer built in.
GONE_REWARDS = {
    **dict.fromkeys(("accuracy_reward", "accuracy"), "write correct_answer"),
    **dict.fromkeys(("format_reward", "think_format_reward"), "write format_tags"),
    "learned": "name the model itself, by its Hub id or folder, as org/model: {weight: 0.5}",
    "judge": "copy docs/examples/judge.py, and name its function under `rewards`",
}


# What other libraries call the keys of a recipe stands in a table of this page.
PAGE = Path(__file__).parent.parent / "docs/migrate.md"


def names_elsewhere() -> Iterator[tuple[str, str]]:
    """Yield each name of another library, and what a recipe has in its place."""
    if not PAGE.is_file():
        return
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("|"):
            replacement, *cells = line.strip("|").split("|")
            for name in re.findall(r"`([\w.]+)`", " ".join(cells)):
                yield name, replacement.strip()


@cache
def _remedies() -> dict[str, str]:
    """Name to remedy, of whole names, and of last parts for which the table has one remedy."""
    remedies = dict(names_elsewhere())
    by_last_part = defaultdict(set)
    for name, replacement in names_elsewhere():
        by_last_part[name.rpartition(".")[2]].add(replacement)
    for name, replacements in by_last_part.items():
        if len(replacements) == 1:
            remedies.setdefault(name, *replacements)
    return remedies


def remedy(*names: str) -> str:
    """What to write for the first of these names that another library has; empty where none has
    it."""
    for name in names:
        if name in _remedies():
            return f"write {_remedies()[name]} (docs/migrate.md)"
    return ""
