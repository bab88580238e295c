"""trl's GRPOTrainer, built as a recipe describes it.

What happens to a completion, in order:

1. A `Rollout` samples it (sampling.py), or vLLM does.
2. trl asks each `GuardedReward` (scoring.py), which calls a reward of the recipe; `correct_answer`
   asks the verifier. `Scores` keeps the batch for the callbacks (callbacks.py).
3. `GRPO._calculate_rewards` logs how many groups have zero variance.
4. trl makes the advantages; with rewards of steps, `StepAdvantages` (step_rewards.py) adds theirs.
   With `data.dynamic_sampling`, `DynamicSampling` (dynamic_sampling.py) replaces groups of zero
   variance: for these 1 to 4 happen again.
5. `LeanLoss` (lean_loss.py) gives trl's loss what can change it.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from accelerate.utils import set_seed
from peft import PeftModel
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from transformers import PreTrainedModel, Trainer
from trl import GRPOConfig, GRPOTrainer

from console.faults import Fault, RecipeError, said_by_library
from console.terminal import say
from data import prompt
from schema.configs import ZERO_VARIANCE
from schema.names import prepare_rewards, tools_of
from schema.recipe import Recipe
from schema.settings import adapter_config
from training.callbacks import KeepBest, Stopwatch
from training.cpu import speed_up_adapter
from training.dynamic_sampling import DynamicSampling
from training.greedy_evaluation import GreedyEvaluation
from training.lean_loss import LeanLoss
from training.merging import (
    adapter_error,
    keep_base_exact,
    merge_at_random,
    shared_layers,
    without_adapter,
)
from training.model import load_model, load_reward_model
from training.problem_sets import prompt_dataset, rows_that_fit
from training.sampling import Rollout, has_relative_positions
from training.scoring import GuardedReward, Scores, guarded_rewards, zero_variance
from training.step_rewards import StepAdvantages, StepRewards, attach_step_rewards
from training.train import keep_adapter_float32, sharded


class GRPO(LeanLoss, GreedyEvaluation, GRPOTrainer):
    """GRPO (Shao et al. 2024, arXiv:2402.03300), and each loss of trl's `loss_type`.

    A loss that trl lacks is a method `_compute_loss(model, inputs)` of this class, which returns a
    scalar: `inputs` are trl's, and the first of the three things that
    `_get_per_token_logps_and_entropies` returns are the policy's log-probabilities.

    Attributes:
        steps: the rewards of steps, None where the recipe has none.
        scores: what the reward functions paid for the last batch.
        keep_best: watches the evaluations.
        rollout: how the policy samples with transformers; None where vLLM samples.
        stopwatch: counts the seconds of sampling and rewards.
        silent: whether each group that was rewarded last has zero variance.
    """

    rollout: Rollout | None = None
    silent: Sequence[bool] = ()

    def _generate_single_turn(self, *args, **kwargs) -> tuple:
        with self.stopwatch.part("sampling"):
            return super()._generate_single_turn(*args, **kwargs)

    def _calculate_rewards(self, *inputs) -> torch.Tensor:
        """trl's rewards, shape (completions, rewards), and a metric of their groups."""
        with self.stopwatch.part("rewards"):
            rewards = super()._calculate_rewards(*inputs)
        if self.model.training:  # validation problems are answered once each, in no groups
            self.silent = zero_variance(rewards, self.reward_weights, self.num_generations)
            self._log_metric(ZERO_VARIANCE, mean(self.silent))
        return rewards


class GRPOByStep(StepAdvantages, GRPO):
    """GRPO with rewards of steps."""


class GRPOSampledAgain(DynamicSampling, GRPO):
    """GRPO whose zero-variance groups are replaced."""


def require_problems(recipe: Recipe, count: int, groups: int):
    """Refuse fewer problems than the groups of a batch, which are of different problems."""
    if count < groups:
        message = (
            f"data.train has {count} problems, but a batch samples from {groups} different ones"
        )
        raise RecipeError([Fault(recipe.place("data", "train"), message)])


def trainer_class(
    recipe: Recipe, model: PreTrainedModel | PeftModel, steps: StepRewards | None
) -> type[GRPO]:
    """The class that has what a recipe wants of GRPO and trl's lacks.

    Args:
        steps: its rewards of steps.

    Raises:
        RecipeError: dynamic sampling, with a model that counts the padding before a prompt.
    """
    if steps:
        return GRPOByStep
    if not recipe.data.dynamic_sampling:
        return GRPO
    if not has_relative_positions(without_adapter(model)):
        place = recipe.place("data", "dynamic_sampling")
        message = "it pads prompts anew, and this model counts the padding: leave it out"
        raise RecipeError([Fault(place, f"data.dynamic_sampling: {message}")])
    return GRPOSampledAgain


def grpo_trainer(
    recipe: Recipe,
    args: GRPOConfig,
    tokenizer,
    rows: list[dict],
    choosing: list[dict],
    warm_start: Path | None,
) -> GRPO:
    """trl's trainer with the recipe's model, adapter, rewards and data.

    Args:
        rows: the training problems.
        choosing: the validation problems that choose the checkpoint, empty where none is chosen.
        warm_start: the folder of the model to begin from, None for the recipe's base model.

    Raises:
        RecipeError: no prompt leaves room for a completion, or there are fewer problems than one
            batch samples from.
    """
    model = load_model(recipe, tokenizer, warm_start)
    end_tokens = model.generation_config.eos_token_id
    if args.use_vllm:
        stop_at_the_end(args, end_tokens)
        if args.vllm_mode == "colocate":
            say("vLLM starts; the first time on a machine it compiles its kernels for minutes")
    rows = rows_that_fit(recipe, model.config, tokenizer, rows)
    require_problems(recipe, len(rows), args.generation_batch_size // args.num_generations)
    prepare_rewards(recipe, [row["solution"] for row in rows])  # while the first are sampled
    functions = guarded_rewards(recipe)
    scores = Scores(functions, set(end_tokens))
    steps = attach_step_rewards(recipe, tokenizer, functions)
    arguments = {"reward_funcs": rewards_in_order(recipe, functions)}
    arguments["train_dataset"] = prompt_dataset(rows, tokenizer, recipe.prompt.system)
    if choosing:
        arguments["eval_dataset"] = prompt_dataset(choosing, tokenizer, recipe.prompt.system)
    else:
        args.eval_strategy = "no"  # transformers refuses to evaluate on nothing
    arguments["tools"] = list(tools_of(recipe).values())
    kind = trainer_class(recipe, model, steps)
    trainer = built("grpo", kind, recipe, model, tokenizer, warm_start, args=args, **arguments)
    if args.use_vllm:
        # vLLM's start has seeded this process with its rank, alike for all seeds of a recipe.
        set_seed(args.seed, device_specific=True)
    trainer.steps = steps
    trainer.extra_rounds = recipe.data.dynamic_sampling
    trainer.scores = scores
    trainer.keep_best = KeepBest(recipe.evaluate.patience, scores)
    trainer.stopwatch = Stopwatch()
    set_rollout(trainer, recipe)
    return trainer


def built(
    stage: str,
    kind: type,
    recipe: Recipe,
    model: PreTrainedModel,
    tokenizer,
    warm_start: Path | None,
    **arguments: Any,
) -> Any:
    """A trainer of trl's with the recipe's adapter, where the warm start has brought none, which
    stays in float32; and with a reference that all processes share."""
    trained_weights = {}
    if recipe.quantization is not None:
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                trained_weights[name] = weight.data
    adapter = None if warm_start else adapter_config(recipe)
    with said_by_library(recipe.place(stage)):
        trainer = kind(model=model, processing_class=tokenizer, peft_config=adapter, **arguments)
    if recipe.quantization is not None:
        keep_adapter_float32(trainer, trained_weights)
    speed_up_adapter(trainer.model)
    if trainer.is_fsdp_enabled and getattr(trainer, "ref_model", None) is not None:
        share_reference(trainer, load_model(recipe, tokenizer, warm_start))
    return trainer


def rewards_in_order(
    recipe: Recipe, functions: list[GuardedReward]
) -> list[GuardedReward | PreTrainedModel]:
    """What trl asks for a reward, in the recipe's order: the functions, and between them the
    models, which it asks by itself.

    Raises:
        RecipeError: a model cannot be loaded, or is no reward model.
    """
    by_name = {function.name: function for function in functions}
    rewards = []
    for name in recipe.rewards:
        if name in by_name:
            rewards.append(by_name[name])
        else:
            rewards.append(load_reward_model(recipe, name))
    return rewards


def set_rollout(trainer: GRPO, recipe: Recipe):
    """Make the policy sample by a `Rollout`. For vLLM the adapter is merged into its base too (by
    trl), which is then restored to the bit.

    Raises:
        RecipeError: vLLM would sample from another policy than the one that is trained.
    """
    policy = trainer.accelerator.unwrap_model(trainer.model)
    adapted = isinstance(policy, PeftModel)
    if adapted:
        seed = trainer.args.seed
        merge_at_random(policy, lambda: f"{seed} {trainer.state.global_step}")
    if not trainer.args.use_vllm:
        policy.generate = Rollout(policy, merges=adapted, in_shards=sharded(trainer))
        trainer.rollout = policy.generate
    elif adapted:
        if shared_layers(policy):
            message = (
                "the adapter changes the embedding, whose weight is the head's too: merged for"
                " vLLM, it would change both. Leave embed_tokens out, or sample with transformers"
                " (grpo.use_vllm: false)"
            )
            raise RecipeError([Fault(recipe.place("adapter"), message)])
        keep_base_exact(policy)


def share_reference(trainer: Trainer, reference: PreTrainedModel):
    """Send the first process's weights of a reference model to all. With FSDP, transformers loads
    weights only in the first process of a machine. accelerate sends the policy's to the others, and
    trl forgets the reference, most of whose shards would be zeros.

    Args:
        reference: as it is before it is sharded.
    """
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(trainer.ref_model, reference.state_dict(), options=options)


def stop_at_the_end(args: GRPOConfig, end_tokens: list[int]):
    """Tell vLLM, colocated or on a server, which tokens end an answer. By itself it reads them from
    the model's folder, where a base model's end token is not its template's, and trl would train on
    all that follows the turn. The end token stays the last one of the completion, as with
    transformers."""
    args.generation_kwargs = {"stop_token_ids": end_tokens} | (args.generation_kwargs or {})


def check_adapter(
    trainer: GRPOTrainer, recipe: Recipe, tokenizer, rows: list[dict], folder: Path
) -> float:
    """Check that the saved adapter, loaded as any user will load it, is the trained policy, and say
    whether it is. Every process loads it, because the processes wait for one another there.

    Returns:
        the largest difference between their log-probabilities of a token, in nats.
    """
    trainer.accelerator.wait_for_everyone()  # the first of them saved it
    system = recipe.prompt.system
    prompts = [prompt.question_ids(tokenizer, row, system) for row in rows[:4]]
    policy = trainer.accelerator.unwrap_model(trainer.model)
    autocast = None
    if trainer.args.bf16:
        autocast = torch.bfloat16
    elif trainer.args.fp16:
        autocast = torch.float16
    error = adapter_error(policy, load_model(recipe, tokenizer, folder), prompts, autocast)
    limit = 0.05
    if recipe.model.dtype == "float32" and autocast is None:
        limit = 1e-4
    if error <= limit:
        say(
            "grpo: the saved adapter on a clean base is the trained policy (log-probabilities"
            f" within {limit:g})"
        )
    else:
        say(
            "grpo: WARNING: the saved adapter on a clean base is NOT the trained policy:"
            f" log-probabilities differ by up to {error:.3g}. Evaluate before you trust it"
        )
    return error
