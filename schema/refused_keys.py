"""Keys that no recipe may set, each with the reason and what to set instead: fields of the
libraries that are decided elsewhere or not offered, and names that are gone."""


def _said(reasons: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in reasons.items() for name in names.split()}


# Where a field of a library is decided elsewhere, say where; where it is not offered, say why.
_NOT_IN_TRAINING = _said(
    {
        "set `output_dir` at the top of the recipe": "output_dir",
        "set `seed` at the top of the recipe": "seed data_seed",
        "set the keys of `model`": "model_init_kwargs",
        "code from a model repository is never run": "trust_remote_code",
        "a run uploads nothing; afterwards: `make merge`, then "
        "`hf upload you/your-model outputs/<recipe>/merged`": (
            "push_to_hub hub_model_id hub_private_repo hub_strategy hub_always_push hub_revision"
        ),
        "a recipe is saved beside its run; keep the token in the environment (HF_TOKEN)": (
            "hub_token"
        ),
        "a run uploads nothing": "trackio_space_id trackio_bucket_id trackio_static_space_id",
        "a run is named after its folder": "run_name project",
        "an unfinished run is always resumed": "resume_from_checkpoint",
        "a run must be able to resume exactly": (
            "ignore_data_skip save_only_model enable_jit_checkpoint "
            "restore_callback_states_from_checkpoint"
        ),
        "name a launcher: ACCELERATE=ddp, zero2, zero3 or fsdp2": (
            "deepspeed fsdp fsdp_config parallelism_config accelerator_config local_rank"
            " ddp_backend ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph"
            " ddp_find_unused_parameters save_on_each_node log_on_each_node"
        ),
        "the machine decides; set CUDA_VISIBLE_DEVICES=-1 to run on the CPU": "use_cpu",
        "the rows are few and in memory": (
            "dataloader_num_workers dataloader_persistent_workers "
            "dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order"
        ),
        "a stage gives its trainer the columns it needs": (
            "remove_unused_columns label_names length_column_name"
        ),
        "each stage decides what it runs": "do_train do_eval do_predict",
        "set grpo.eval_steps, and the rest follows": (
            "eval_strategy eval_delay eval_on_start load_best_model_at_end metric_for_best_model"
            " greater_is_better prediction_loss_only eval_do_concat_batches eval_use_gather_object"
            " eval_accumulation_steps include_for_metrics batch_eval_metrics bf16_full_eval"
            " fp16_full_eval"
        ),
        "set model.dtype: float16, which is enough": "fp16",
        "set per_device_train_batch_size; `make memory` estimates what fits": (
            "auto_find_batch_size"
        ),
        "every run logs to the screen and to metrics.jsonl": (
            "logging_strategy logging_nan_inf_filter disable_tqdm "
            "log_level log_level_replica include_num_input_tokens_seen"
        ),
        "`make memory` and `make probe-memory` measure memory": "skip_memory_metrics",
        "a gradient that is not finite already stops the run": "debug",
        "it starts compilers, and a resumed run may compute differently": (
            "torch_compile torch_compile_backend torch_compile_mode"
        ),
        "liger-kernel is not part of this environment": "use_liger_kernel liger_kernel_config",
        "training needs no KV cache, and sampling has its own": "use_cache",
        "only optimizers that are not installed use it": "optim_target_modules",
        "most optimizers silently ignore it": "optim_args",
    }
)
RESERVED: dict[str, dict[str, str]] = {
    "sft": (
        _NOT_IN_TRAINING
        | _said(
            {
                "set `model.chat_template`": "chat_template_path eos_token pad_token",
                "the stage tokenises the rows itself": (
                    "dataset_text_field dataset_kwargs dataset_num_proc"
                ),
                "a row that is too long is left out, not cut": "truncation_mode",
                "rows are short, and packing needs flash attention": (
                    "packing packing_strategy padding_free eval_packing"
                ),
                "the loss covers the solution only": "completion_only_loss assistant_only_loss",
                "the warm start is judged afterwards, by `make evaluate`": (
                    "eval_steps per_device_eval_batch_size"
                ),
                "it needs a GPU and has not been tested here": "activation_offloading",
            }
        )
    ),
    "dpo": (
        _NOT_IN_TRAINING
        | _said(
            {
                "the stage tokenises the pairs itself": "dataset_num_proc",
                "the tokenizer's own is used": "pad_token",
                "a pair that is too long is left out, not cut": "truncation_mode",
                "it needs flash attention": "padding_free",
                "the policy is judged afterwards, by `make evaluate`": (
                    "eval_steps per_device_eval_batch_size"
                ),
                "the reference answers each batch as it comes": (
                    "precompute_ref_log_probs precompute_ref_batch_size"
                ),
                "a checkpoint would not contain the reference": (
                    "sync_ref_model ref_model_mixup_alpha ref_model_sync_steps"
                ),
                "the policy must begin as its reference": "neftune_noise_alpha",
                "set dpo.label_smoothing": "label_smoothing_factor",
                "it needs a GPU and has not been tested here": "activation_offloading",
            }
        )
    ),
    "grpo": (
        _NOT_IN_TRAINING
        | _said(
            {
                "weights stand beside each reward under `rewards`": "reward_weights",
                "evaluation would not use them; set `model.chat_template_kwargs`": (
                    "chat_template_kwargs"
                ),
                "evaluation would not use it; reward the form instead": (
                    "vllm_structured_outputs_regex"
                ),
                "a run uploads nothing, and this would be public": "log_completions_hub_repo",
                "completions are written to the run's folder": (
                    "num_completions_to_print log_unique_prompts log_multimodal"
                ),
                "set vllm_server_host and vllm_server_port": "vllm_server_base_url",
                "set vllm_importance_sampling_clip_max": "vllm_importance_sampling_cap",
                "a held-out problem gets one greedy answer": "num_generations_eval",
                "the policy that is trained must be the one that sampled": "neftune_noise_alpha",
                "GRPO has no labels": "label_smoothing_factor average_tokens_across_devices",
                "trl's sampler keeps groups whole": "train_sampling_strategy dataloader_drop_last",
                "a checkpoint would not contain the reference": (
                    "sync_ref_model ref_model_mixup_alpha ref_model_sync_steps"
                ),
                "it casts the weights being trained; set use_vllm": (
                    "use_transformers_continuous_batching "
                    "transformers_continuous_batching_config use_transformers_paged"
                ),
            }
        )
    ),
    "adapter": _said(
        {
            "it is always CAUSAL_LM here": "task_type",
            "it is always LoRA here": "peft_type",
            "set `model.name_or_path`": "base_model_name_or_path",
            "set `model.revision`": "revision",
            "it imports the modules it names": "megatron_core megatron_config auto_mapping",
            "it reads or writes files, or changes the base": (
                "loftq_config eva_config corda_config lora_ga_config kasa_config layer_replication"
            ),
            "an adapter here is plain LoRA": (
                "velora_config monteclora_config arrow_config use_bdlora use_qalora "
                "qalora_group_size alora_invocation_tokens trainable_token_indices runtime_config"
            ),
            "peft reads it off the layer": "fan_in_fan_out",
            "it would train nothing": "inference_mode",
            "peft writes it itself": "peft_version",
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

# A key of sections too, which another config has at its top for what is elsewhere here.
AT_THE_TOP = {"bf16": "set model.dtype"}
# Names that were a library's once, or are another's, and what says the same here.
GONE = {
    "max_prompt_length": (
        "trl has no limit on prompts any more; those that leave no room for a completion are"
        " left out"
    ),
    "warmup_ratio": "set warmup_steps: a number below 1 is a share of the steps",
    "order": "GRPO shuffles its problems; data.pass_rate chooses them",
    "base_model": "set model.name_or_path",
    "model_name_or_path": "set model.name_or_path",
    "model_revision": "set model.revision",
    "torch_dtype": "set model.dtype",
    "dataset_name": "name it in data.train",
    "dataset_prompt_column": "set `columns` of a data set in data.train",
    "datasets": "name them in data.train",
    "system_prompt": "set prompt.system",
    "rl": "the make target says which: grpo or dpo",
    "trl": "its keys stand in `grpo`, its rewards under `rewards`",
    "vllm": "set grpo.use_vllm and the grpo.vllm_ keys",
    "micro_batch_size": "set grpo.per_device_train_batch_size",
    "num_epochs": "set num_train_epochs",
    "sequence_len": "set sft.max_length",
    "wandb_project": "set grpo.report_to; a run is named after its folder",
    "lr": "set learning_rate",
    "batch_size": "set per_device_train_batch_size",
    "epochs": "set num_train_epochs",
    "max_seq_length": "set sft.max_length",
    "evaluation_strategy": "set grpo.eval_steps",
    "vllm_guided_decoding_regex": "evaluation would not use it; reward the form instead",
    "vllm_device": "vLLM shares the GPUs of the run; see grpo.vllm_mode",
    "max_new_tokens": "set grpo.max_completion_length",
    "max_tokens": "set grpo.max_completion_length",
    "kl_coef": "set grpo.beta",
    "epsilon_low": "set grpo.epsilon",
    "group_size": "set grpo.num_generations",
    "no_cuda": "set CUDA_VISIBLE_DEVICES=-1 to run on the CPU",
    "use_mps_device": "set ACCELERATE_TORCH_DEVICE=mps in the environment to run on Apple's GPU",
    "group_by_length": "set sft.train_sampling_strategy",
    "overwrite_output_dir": "a run is never overwritten: delete its folder",
    "logging_dir": "a run writes its logs into its own folder",
    "save_safetensors": "weights are always saved as safetensors",
    "use_liger_loss": "trl's own loss does not hold the logits of all tokens",
    "tokenizer_name": "the model's own tokenizer is used",
    "reward_funcs": "name the rewards under `rewards`",
    "use_peft": "add an `adapter` section",
    "lora_r": "set adapter.r",
    "lora_target_modules": "set adapter.target_modules",
    "lora_target_linear": "set adapter.target_modules: all-linear",
    "quantization_config": "set `quantization`",
    "load_in_4bit": "set quantization.load_in_4bit",
    "load_in_8bit": "set quantization.load_in_8bit",
    "model_name": "set model.name_or_path",
    "dataset": "name it in data.train",
    "columns": "set `columns` of a data set in data.train",
    "system": "set prompt.system",
    "val_set_size": "set data.validation, a number of problems",
    "eval_dataset": "set data.validation, a number of problems",
    "split_dataset_ratio": "set data.validation, a number of problems",
    "optimizer": "set sft.optim and grpo.optim",
    "lr_scheduler": "set sft.lr_scheduler_type and grpo.lr_scheduler_type",
    "fast_inference": "set grpo.use_vllm",
    "gpu_memory_utilization": "set grpo.vllm_gpu_memory_utilization",
    "num_processes": "name a launcher beside the make target: ACCELERATE=ddp PROCESSES=8",
    "external_plugins": (
        "trust your file of rewards (make trust), and name its functions under `rewards`"
    ),
    "rlhf_type": "the make target says which: grpo or dpo",
    "train_type": "add an `adapter` section for LoRA; without one all weights are trained",
    "tuner_type": "add an `adapter` section for LoRA; without one all weights are trained",
    "lora_rank": "set adapter.r",
    "quant_bits": "set quantization.load_in_4bit or quantization.load_in_8bit",
    "sample_packing": "rows are short, and packing needs flash attention",
    "dataset_test_split": "set data.validation, a number of problems",
    "dataset_config": "set `config` of a data set in data.train",
    "random_state": "set `seed` at the top of the recipe",
    "use_gradient_checkpointing": "set gradient_checkpointing of sft and grpo",
    "full_finetuning": "leave out the `adapter` section",
    "max_lora_rank": "set adapter.r",
    "saves_per_epoch": "set save_steps of sft and grpo",
    "evals_per_epoch": "set grpo.eval_steps",
    "sleep_level": "set grpo.vllm_enable_sleep_mode",
    "wandb_entity": "set WANDB_ENTITY in the environment",
    "wandb_name": "a run is named after its folder",
}
# Rewards that are no longer built in.
GONE_REWARDS = {
    "judge": "copy docs/examples/judge.py, trust the copy (make trust), and name its function",
}
