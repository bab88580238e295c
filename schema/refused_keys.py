"""Keys that no recipe may set, each with the reason and what to set instead: fields of the
libraries that are decided elsewhere or not offered, and names that are gone."""

from functools import cache

from schema import configs

NOT_OFFERED = "the stage decides it, or it has not been tried here"


def _by_name(table: str) -> dict[str, str]:
    """Name to reason. A row of the table is `reason <- names`; an indented line continues it."""
    reasons = {}
    for row in table.strip().replace("\n  ", " ").split("\n"):
        reason, _, names = row.partition(" <- ")
        reasons |= dict.fromkeys(names.split(), reason)
    return reasons


# Where a field of a library is decided elsewhere, say where; where it is dangerous, say why. A
# field whose type may name a file, an address or code needs no line: see `reserved`.
REASONS = _by_name("""
set `output_dir` at the top of the recipe <- output_dir
set `seed` at the top of the recipe <- seed data_seed
set the keys of `model` <- model_init_kwargs
set `model.name_or_path` <- base_model_name_or_path
set `model.revision` <- revision
set `model.chat_template` <- chat_template_path eos_token pad_token
evaluation would not use them; set `model.chat_template_kwargs` <- chat_template_kwargs
set model.dtype: float16, which is enough <- fp16
code from a model repository is never run <- trust_remote_code
a run uploads nothing; afterwards: `make merge`, then `hf upload you/your-model
  outputs/<recipe>/merged` <- push_to_hub hub_model_id hub_private_repo hub_strategy hub_always_push
  hub_revision
a recipe is saved beside its run; keep the token in the environment (HF_TOKEN) <- hub_token
a run uploads nothing <- trackio_space_id trackio_bucket_id trackio_static_space_id
a run uploads nothing, and this would be public <- log_completions_hub_repo
a run is named after its folder <- run_name project
an unfinished run is always resumed <- resume_from_checkpoint
name a launcher: ACCELERATE=ddp, zero2, zero3 or fsdp2 <- deepspeed fsdp fsdp_config
  parallelism_config accelerator_config local_rank ddp_backend ddp_bucket_cap_mb
  ddp_broadcast_buffers ddp_static_graph ddp_find_unused_parameters save_on_each_node
  log_on_each_node
the machine decides; set CUDA_VISIBLE_DEVICES=-1 to run on the CPU <- use_cpu
set grpo.eval_steps, and the rest follows <- eval_strategy eval_delay eval_on_start
  load_best_model_at_end metric_for_best_model greater_is_better prediction_loss_only
  eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics
  batch_eval_metrics bf16_full_eval fp16_full_eval num_generations_eval
set per_device_train_batch_size; `make memory` estimates what fits <- auto_find_batch_size
it starts compilers, and a resumed run may compute differently <- torch_compile
  torch_compile_backend torch_compile_mode
it imports the modules it names <- megatron_core megatron_config auto_mapping
it reads or writes files, or changes the base <- loftq_config eva_config corda_config lora_ga_config
  kasa_config layer_replication
weights stand beside each reward under `rewards` <- reward_weights
evaluation would not use it; reward the form instead <- vllm_structured_outputs_regex
set vllm_server_host and vllm_server_port <- vllm_server_base_url
vLLM and evaluation would not use it; set model.dtype: float32 <- cast_lm_head_to_fp32
set vllm_importance_sampling_clip_max <- vllm_importance_sampling_cap
it casts the weights being trained; leave it out or, without quantization, set use_vllm <-
  use_transformers_continuous_batching transformers_continuous_batching_config
  use_transformers_paged
""")
NOT_TRIED = """
activation_offloading assistant_only_loss completion_only_loss dataloader_in_order
dataloader_num_workers dataloader_persistent_workers dataloader_prefetch_factor dataset_num_proc
disable_tqdm do_eval do_predict do_train enable_jit_checkpoint eval_packing fan_in_fan_out
ignore_data_skip inference_mode include_num_input_tokens_seen llm_int8_enable_fp32_cpu_offload
llm_int8_has_fp16_weight log_multimodal log_unique_prompts logging_nan_inf_filter
num_completions_to_print packing padding_free qalora_group_size ref_model_mixup_alpha
ref_model_sync_steps remove_unused_columns restore_callback_states_from_checkpoint save_only_model
skip_memory_metrics sync_ref_model use_cache use_liger_kernel use_qalora
"""
REASONS |= dict.fromkeys(NOT_TRIED.split(), NOT_OFFERED)
# Fields that some sections have a use for, and these have not.
ONLY_ELSEWHERE = {
    "sft": ["eval_steps", "per_device_eval_batch_size"],
    "grpo": ["average_tokens_across_devices", "dataloader_drop_last", "neftune_noise_alpha"],
}
ONLY_ELSEWHERE["grpo"] += ["label_smoothing_factor"]


@cache
def reserved(section: str) -> dict[str, str]:
    """Name to reason of every field that a section of a library has and no recipe may set: those
    above, and all of a type that may name a file, an address or code, unless schema/values.py says
    what they may be."""
    if section not in configs.SECTIONS:
        return {}
    reasons = {}
    for key, field in configs.fields(section).items():
        if key in REASONS:
            reasons[key] = REASONS[key]
        elif key in ONLY_ELSEWHERE.get(section, ()) or not configs.rule_of(
            section, key, field.type
        ):
            reasons[key] = NOT_OFFERED
    return reasons


# A key of sections too, which another config has at its top for what is elsewhere here.
AT_THE_TOP = {"bf16": "set model.dtype"}
# Names that were a library's once, or are another's, and what says the same here.
GONE = _by_name("""
trl has no limit on prompts any more; one that leaves no room is left out <- max_prompt_length
set warmup_steps: a number below 1 is a share of the steps <- warmup_ratio
GRPO shuffles its problems; data.pass_rate chooses them <- order
set model.name_or_path <- base_model model_name_or_path model_name
set model.revision <- model_revision
set model.dtype <- torch_dtype
name it in data.train <- dataset_name dataset
set `columns` of a data set in data.train <- dataset_prompt_column columns
name them in data.train <- datasets
set prompt.system <- system_prompt system
the make target says it: make grpo <- rl rlhf_type
leave it out; recipes/tiny-reinforce.yaml has RLOO's gradient as keys of grpo <- algorithm
leave it out; docs/examples/dpo.py trains with DPO on what a finished run sampled <- dpo
its keys stand in `grpo`, its rewards under `rewards` <- trl
set grpo.use_vllm and the grpo.vllm_ keys <- vllm
set grpo.per_device_train_batch_size <- micro_batch_size
set num_train_epochs <- num_epochs epochs
set sft.max_length <- sequence_len max_seq_length
set grpo.report_to; a run is named after its folder <- wandb_project
set learning_rate <- lr
set per_device_train_batch_size <- batch_size
set grpo.eval_steps <- evaluation_strategy evals_per_epoch
evaluation would not use it; reward the form instead <- vllm_guided_decoding_regex
vLLM shares the GPUs of the run; see grpo.vllm_mode <- vllm_device
set grpo.max_completion_length <- max_new_tokens max_tokens
set grpo.beta <- kl_coef
set grpo.epsilon <- epsilon_low
set grpo.num_generations <- group_size
set CUDA_VISIBLE_DEVICES=-1 to run on the CPU <- no_cuda
set sft.train_sampling_strategy <- group_by_length
a run is never overwritten: delete its folder <- overwrite_output_dir
a run writes its logs into its own folder <- logging_dir
weights are always saved as safetensors <- save_safetensors
trl's own loss does not hold the logits of all tokens <- use_liger_loss
the model's own tokenizer is used <- tokenizer_name
name the rewards under `rewards` <- reward_funcs
add an `adapter` section <- use_peft
set adapter.r <- lora_r lora_rank max_lora_rank
set adapter.target_modules <- lora_target_modules
set adapter.target_modules: all-linear <- lora_target_linear
set `quantization` <- quantization_config
set quantization.load_in_4bit <- load_in_4bit
set quantization.load_in_8bit <- load_in_8bit
set data.validation, a number of problems <- val_set_size eval_dataset split_dataset_ratio
  dataset_test_split
set sft.optim and grpo.optim <- optimizer
set sft.lr_scheduler_type and grpo.lr_scheduler_type <- lr_scheduler
set grpo.use_vllm <- fast_inference
set grpo.vllm_gpu_memory_utilization <- gpu_memory_utilization
name a launcher beside the make target: ACCELERATE=ddp PROCESSES=8 <- num_processes
name the functions of your file of rewards under `rewards` <- external_plugins
add an `adapter` section for LoRA; without one all weights are trained <- train_type tuner_type
set quantization.load_in_4bit or quantization.load_in_8bit <- quant_bits
rows are short, and packing needs flash attention <- sample_packing
set `config` of a data set in data.train <- dataset_config
set `seed` at the top of the recipe <- random_state
set gradient_checkpointing of sft and grpo <- use_gradient_checkpointing
leave out the `adapter` section <- full_finetuning
set save_steps of sft and grpo <- saves_per_epoch
set grpo.vllm_enable_sleep_mode <- sleep_level
set WANDB_ENTITY in the environment <- wandb_entity
a run is named after its folder <- wandb_name
""")
# Rewards that are no longer built in.
GONE_REWARDS = {
    "learned": "name the model itself, by its Hub id or folder, as org/model: {weight: 0.5}",
    "judge": "copy docs/examples/judge.py, and name its function under `rewards`",
}
