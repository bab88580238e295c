"""Estimates how long a step of GRPO takes on a GPU by its data sheet: sampling reads all weights for each token of the
longest completion, training multiplies, and weights travel. docs/memory.md has the formulas.
"""

from dataclasses import dataclass

from transformers import PretrainedConfig

from schema import configs
from schema.gpus import Card
from schema.recipe import Recipe
from training.memory import cache_bytes_per_token, model_config, on_meta, parameter_bytes

# Shares of a data sheet's speeds that programs reach. Assumed: Llama 3 was trained at 38 to 43% of the FLOPs
# (arXiv:2407.21783, table 4), in larger batches than these.
BANDWIDTH_SHARE = 0.6
FLOPS_SHARE = 0.3
RUNNING = 256  # completions that vLLM decodes at once (its max_num_seqs)


@dataclass(frozen=True)
class StepTime:
    """Seconds of an optimizer step, where each completion is as long as the recipe allows."""

    sampling: float
    training: float
    exchange: float

    @property
    def total(self) -> float:
        return self.sampling + self.training + self.exchange


def step_time(recipe: Recipe, prompt_tokens: int, card: Card, gpus: int = 1, sharded: bool = False) -> StepTime:
    """The time of an optimizer step.

    Args:
        prompt_tokens: of a prompt.
        card: with its speeds.
        gpus: that train; each samples its own completions too, unless a vLLM server samples those of all.
        sharded: whether the weights are gathered for each pass (ZeRO-3, FSDP).

    Raises:
        RecipeError: the model's config cannot be read.
    """
    config = model_config(recipe)
    model = on_meta(recipe, config)
    frozen, trained = parameter_bytes(model, recipe)
    bandwidth, speed, link = card.bandwidth * 1e9, card.flops * 1e12 * FLOPS_SHARE, card.link * 1e9
    parameters = sum(each.numel() for name, each in model.named_parameters() if "lora_" not in name)
    args = configs.training_config(recipe, "grpo")
    length = args.max_completion_length
    # Below 1 where an update takes several generations.
    steps = args.steps_per_generation * args.num_iterations / args.gradient_accumulation_steps
    served = args.use_vllm and args.vllm_mode == "server"
    # What samples computes in bfloat16, whatever the weights are kept in.
    decoding = Decoding(2 * parameters, parameters, cache_bytes_per_token(config, recipe), bandwidth, speed)
    together = args.vllm_tensor_parallel_size if args.use_vllm else 1  # GPUs that share the weights as they sample
    sampled = args.per_device_train_batch_size * args.steps_per_generation * (gpus if served else together)
    sampling = decoding.seconds(sampled, prompt_tokens, length, together)
    tokens = args.per_device_train_batch_size * args.gradient_accumulation_steps * (prompt_tokens + length)
    training = tokens * flops_per_token(recipe, config, parameters, args, prompt_tokens + length) / speed
    # All-reduce of gradients: twice their bytes; where weights are sharded, gathered for forward and backward.
    exchange = 0.0
    if gpus > 1:
        exchange = 2 * trained / link
        if sharded:
            exchange += 2 * args.gradient_accumulation_steps * (frozen + trained) / link
    if served:
        exchange += 2 * parameters / link / steps
    return StepTime(sampling / steps, training, exchange)


@dataclass(frozen=True)
class Decoding:
    """A model that samples: `weights` in bytes, `parameters`, bytes of the `cache` for a token, the device's speeds."""

    weights: float
    parameters: int
    cache: int
    bandwidth: float
    flops: float

    def seconds(self, completions: int, prompt: int, length: int, tensor_parallel: int = 1) -> float:
        """For completions of `length` tokens after prompts of `prompt`, decoded `RUNNING` at a time. A token of all of
        them takes one read of the weights and of their caches, or its products, whichever is longer."""
        total = 0.0
        while completions > 0:
            running = min(completions, RUNNING * tensor_parallel)
            read = self.weights / tensor_parallel + running / tensor_parallel * self.cache * (prompt + length / 2)
            products = 2 * self.parameters * running / tensor_parallel
            total += length * max(read / (self.bandwidth * BANDWIDTH_SHARE), products / self.flops)
            total += prompt * products / self.flops
            completions -= running
        return total


def flops_per_token(recipe: Recipe, config: PretrainedConfig, parameters: int, args, tokens: int) -> float:
    """Of training on one token: 2 for each parameter forward, 2 for the gradient of what flows back, 2 for that of the
    weights unless an adapter is trained (Kaplan et al. 2020, arXiv:2001.08361, section 2.1). Checkpointing takes one
    more forward pass; the reference's and the old policy's log-probabilities one each for all uses of a batch."""
    text = config.get_text_config()
    attention = 2 * text.num_hidden_layers * text.hidden_size * tokens  # of a causal one, half of all pairs
    forward = 2 * parameters + attention
    passes = 3 if recipe.adapter is None else 2
    passes += bool(args.gradient_checkpointing)
    passes += (bool(args.beta) + bool(args.num_iterations > 1 or args.use_vllm)) / args.num_iterations
    return passes * forward
