"""Builds trl's GRPOTrainer, RLOOTrainer or DPOTrainer as a recipe describes it, with the data that
it trains on."""

import copy
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from datasets import Dataset
from peft import PeftModel
from pyarrow import ArrowException
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel, Trainer, TrainerCallback
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from data import prompt
from data.problems import for_rewards
from data.sources import DataError
from schema import configs, stages
from schema.configs import WITHOUT_SIGNAL
from schema.faults import Fault, RecipeError, said_by_library
from schema.names import prepare_rewards, tools_of
from schema.recipe import Recipe
from schema.terminal import say
from training.model import load_model
from training.progress import ShowAdvice
from training.reward_model import reward_arguments
from training.sampling import (
    adapter_error,
    keep_base_exact,
    mergeable,
    sample_merged,
    share_prompts,
)
from training.saving import FiniteNumbers, KeepBest
from training.scoring import Scores, guarded_rewards, without_signal
from training.step_rewards import StepAdvantages, attach_step_rewards
from training.train import keep_adapter_float32, sharded


class Greedy:
    """A trainer that answers the held-out problems greedily, as the evaluation does, and counts the
    groups without signal."""

    def _calculate_rewards(self, *given) -> torch.Tensor:
        rewards = super()._calculate_rewards(*given)
        if self.model.training:  # held-out problems are answered once each, in no groups
            share = without_signal(rewards, self.reward_weights, self.num_generations)
            self._log_metric(WITHOUT_SIGNAL, share)
        return rewards

    def log(self, logs: dict[str, float], start_time: float | None = None):
        # A run that resumes from its last checkpoint samples nothing, and must not empty that
        # step's file.
        wanted, self.log_completions = (
            self.log_completions,
            self.log_completions and bool(self._logs["prompt"]),
        )
        super().log(logs, start_time)
        self.log_completions = wanted

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        if self.use_vllm:
            generator, greedy = self.vllm_generation, {"temperature": 0.0}
        else:
            # What only sampling reads is left out: transformers warns of it.
            sampling = dict.fromkeys(("temperature", "top_p", "top_k", "min_p"))
            generator, greedy = self.generation_config, {"do_sample": False, **sampling}
        sampled = {key: getattr(generator, key) for key in greedy}
        # transformers lets a model's own config, which trl fills from these, override a `False`.
        config = getattr(self, "generation_kwargs", {})
        before = dict(config)
        # at its end a run writes these again, and must not write these answers
        written = copy.deepcopy(self._logs)
        try:
            vars(generator).update(greedy)
            config.update(greedy)
            self.log_completions = False  # this step's file is for its training completions
            return super().evaluate(*args, **kwargs)
        finally:
            vars(generator).update(sampled)
            config.update(before)
            self.log_completions = self.args.log_completions
            self._logs = written

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """Answers a batch and rewards the answers. trl would also pass the whole batch through the
        model at once, for a loss that nothing reads and a reference; what is left of that goes in
        batches of training's size.
        """
        args = self.args
        given, args.per_device_eval_batch_size = (
            args.per_device_eval_batch_size,
            args.per_device_train_batch_size,
        )
        try:
            self._prepare_inputs(inputs)
        finally:
            args.per_device_eval_batch_size = given
        return None, None, None


class GreedyEvaluation(Greedy, GRPOTrainer):
    """GRPO, whose loss reads nothing that cannot change it."""

    def _compute_loss(self, model, inputs: dict) -> torch.Tensor:
        if self.model.training:
            inputs = without_padding(
                with_advantage(inputs) if self.reads_advantages_alone() else inputs
            )
        return super()._compute_loss(model, inputs)

    def reads_advantages_alone(self) -> bool:
        """Whether a completion without advantage leaves the loss as it is: nothing else pulls at
        it, and the loss is no mean over completions. Several processes gather equal numbers of
        them."""
        args = self.args
        also = (
            self.beta
            or self._entropy_bonus_enabled
            or self.aux_loss_enabled
            or self.top_entropy_quantile < 1
        )
        return args.world_size == 1 and not also and self.loss_type in ("dapo", "cispo")


def with_advantage(inputs: dict) -> dict:
    """A batch of the loss without the completions of groups that all earned the same; one stays
    where all did, if there is one whose tokens count."""
    counted = inputs["completion_mask"].any(1)
    kept = inputs["advantages"].reshape(len(counted), -1).any(1)
    kept = kept.nonzero()[:, 0] if kept.any() else counted.int().argmax()[None]
    whole = {key: each for key, each in inputs.items() if torch.is_tensor(each) and each.dim()}
    return inputs | {key: each[kept] for key, each in whole.items()}


def without_padding(inputs: dict) -> dict:
    """A batch of the loss without the columns that hold no token of it: trl pads to the longest
    prompt and completion of all that were sampled together. What is compared with earlier
    log-probabilities keeps its prompts' padding, by which some models count positions."""
    cut = {}
    if not inputs.keys() & {"old_per_token_logps", "ref_per_token_logps"}:
        prompt = inputs["prompt_mask"].any(0)
        cut = {key: inputs[key][:, prompt] for key in ("prompt_ids", "prompt_mask")}
    completion = inputs["completion_mask"].any(0)
    completion[0] = True  # with mask_truncated_completions, a batch may learn from no token
    tokens = {
        key: each for key, each in inputs.items() if torch.is_tensor(each) and each.dim() == 2
    }
    tokens = {
        key: each
        for key, each in tokens.items()
        if each.shape[1] > 1 and not key.startswith("prompt")
    }
    return inputs | cut | {key: each[:, completion] for key, each in tokens.items()}


class LeaveOneOut(Greedy, RLOOTrainer):
    """RLOO (Ahmadian et al. 2024, arXiv:2402.14740), which writes its completions as trl's
    GRPOTrainer does."""

    def log(self, logs: dict[str, float], start_time: float | None = None):
        super().log(logs, start_time)
        if self.accelerator.is_main_process and self.log_completions and self._logs["prompt"]:
            columns = {key: self._logs[key] for key in ("prompt", "completion")}
            columns |= (
                self._logs["rewards"]
                | self._logs["extra"]
                | {"advantage": self._logs["advantages"]}
            )
            folder, step = Path(self.args.output_dir) / "completions", self.state.global_step
            folder.mkdir(exist_ok=True)
            pd.DataFrame({"step": step} | columns).to_parquet(
                folder / f"completions_{step:05d}.parquet"
            )


class ByStep(StepAdvantages, GreedyEvaluation):
    """GRPO with rewards of steps."""


class SameOrder(TrainerCallback):
    """Gives a resumed run its problems in their order. trl draws the order of each epoch from a
    generator that no checkpoint holds, so a run resumed in its third epoch would see the order of
    the first again."""

    def on_train_begin(self, args, state, control, train_dataloader=None, **kwargs):
        batches = train_dataloader.batch_sampler
        sampler = getattr(
            batches, "batch_sampler", batches
        ).sampler  # under a launcher a process has a shard of them
        for _ in range(min(int(state.epoch or 0), state.max_steps) if sampler.shuffle else 0):
            torch.randperm(sampler.num_samples, generator=sampler.generator)


class Reshard(TrainerCallback):
    """Shards the model again after each batch of an evaluation. As accelerate sets FSDP2 up, the
    norm, the embedding and the head stay whole after a forward pass without gradients, and trl
    cannot send them to vLLM for the next batch."""

    def on_prediction_step(self, args, state, control, model=None, **kwargs):
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def grpo_trainer(
    recipe: Recipe,
    args: GRPOConfig | RLOOConfig,
    tokenizer,
    rows: list[dict],
    choosing: list[dict],
    warm_start: Path | None,
) -> GreedyEvaluation | LeaveOneOut:
    """trl's trainer with the recipe's model, adapter, rewards and data; `choosing`: the held-out
    rows that choose the checkpoint, empty where none is chosen.

    Raises:
        RecipeError: no prompt leaves room for a completion, or there are fewer problems than one
            batch samples from.
    """
    model = load_model(recipe, tokenizer, warm_start)
    ends = model.generation_config.eos_token_id
    if args.use_vllm:
        stop_at_the_end(args, ends)
    rows = fitting(recipe, model.config, tokenizer, rows)
    dataset = with_prompts(rows, tokenizer, recipe.prompt.system)
    if len(dataset) < (groups := args.generation_batch_size // args.num_generations):
        message = (
            f"data.train has {len(dataset)} problems, but a batch samples from {groups} different"
            " ones"
        )
        raise RecipeError([Fault(recipe.place("data", "train"), message)])
    rewards = Rewards(recipe, args, tokenizer, rows, set(ends), bool(choosing))
    given = reward_arguments(recipe, rewards.functions) | {
        "train_dataset": dataset,
        "eval_dataset": (
            with_prompts(choosing, tokenizer, recipe.prompt.system) if choosing else None
        ),
    }
    kind = ByStep if rewards.steps else globals()[stages.algorithm(recipe.algorithm).trainer]
    # RLOO has no such argument
    given |= {"tools": [*tools_of(recipe).values()]} if recipe.tools else {}
    trainer = _built(kind, "grpo", recipe, model, tokenizer, warm_start, args=args, **given)
    trainer.steps = rewards.steps
    trainer.scores = rewards.scores
    trainer.keep_best = rewards.keep_best
    for each in parts(recipe, trainer, rewards):
        trainer.add_callback(each)
    sample_cheaply(trainer)
    return trainer


def _built(
    kind: type,
    section: str,
    recipe: Recipe,
    model: PreTrainedModel,
    tokenizer,
    warm_start: Path | None,
    **given: Any,
) -> Any:
    """A trainer of trl's with the recipe's adapter, where the warm start has brought none, which
    stays in float32; and with a reference that all processes share."""
    loaded = {
        name: each.data
        for name, each in model.named_parameters()
        if each.requires_grad and recipe.quantization
    }
    adapter = None if warm_start else configs.adapter_config(recipe)
    with said_by_library(recipe.place(section)):
        trainer = kind(model=model, processing_class=tokenizer, peft_config=adapter, **given)
    if recipe.quantization is not None:
        keep_adapter_float32(trainer, loaded)
    if trainer.is_fsdp_enabled and trainer.ref_model is not None:
        share_reference(trainer, load_model(recipe, tokenizer, warm_start))
    return trainer


class Rewards:
    """The recipe's rewards as trl calls them, their `scores`, and who looks on: `finite`,
    `keep_best`, and `steps` where the recipe asks for them.

    Args:
        ends: the ids of the tokens that end a completion.
        choosing: whether held-out answers choose the checkpoint.
    """

    def __init__(
        self, recipe: Recipe, args, tokenizer, rows: list[dict], ends: set[int], choosing: bool
    ):
        # While the first completions are sampled.
        prepare_rewards(recipe, [row["solution"] for row in rows if not row.get("check")])
        self.functions = guarded_rewards(recipe)
        self.scores = Scores(self.functions, ends)
        self.finite, self.keep_best = FiniteNumbers(), KeepBest(recipe.evaluate.patience)
        self.steps = attach_step_rewards(recipe, tokenizer, self.functions)
        self.scores.watchers += [self.finite.saw, *([self.keep_best.saw] if choosing else [])]


def parts(
    recipe: Recipe, trainer: GreedyEvaluation | LeaveOneOut, rewards: Rewards
) -> list[TrainerCallback]:
    """What a run has beside trl's own trainer, in the order in which each hears of what happens."""
    found = (
        rewards.finite,
        SameOrder(),
        rewards.keep_best,
        ShowAdvice(recipe),  # after keep_best, which adds to the history which answers were right
        Reshard() if trainer.is_fsdp_enabled else None,
    )
    return [each for each in found if each]


def sample_cheaply(trainer: GreedyEvaluation | LeaveOneOut):
    """Sample with the adapter merged into its base, which is then restored to the bit (trl merges
    it for vLLM), and with transformers read a group's prompt once."""
    policy = trainer.accelerator.unwrap_model(trainer.model)
    adapted = isinstance(policy, PeftModel)
    if trainer.args.use_vllm:
        if adapted:
            keep_base_exact(policy)
    elif not sharded(trainer):
        share_prompts(policy)  # first, because it reads them with the merged weights
        if adapted and mergeable(policy):
            sample_merged(policy)


def share_reference(trainer: Trainer, whole: PreTrainedModel):
    """Send the first process's weights of a reference model to all. With FSDP, transformers loads
    weights only in the first process of a machine. accelerate sends the policy's to the others, and
    trl forgets the reference, most of whose shards would be zeros.

    Args:
        whole: the reference, as it is before it is sharded.
    """
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(trainer.ref_model, whole.state_dict(), options=options)


def stop_at_the_end(args: GRPOConfig | RLOOConfig, ends: list[int]):
    """Tell vLLM, colocated or on a server, which tokens end an answer. By itself it reads them from
    the model's folder, where a base model's end token is not its template's, and trl would train on
    all that follows the turn. The end token stays the last one of the completion, as with
    transformers."""
    args.generation_kwargs = {"stop_token_ids": ends} | (args.generation_kwargs or {})


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
    prompts = [prompt.question_ids(tokenizer, row["problem"], system) for row in rows[:4]]
    policy = trainer.accelerator.unwrap_model(trainer.model)
    autocast = torch.bfloat16 if trainer.args.bf16 else torch.float16 if trainer.args.fp16 else None
    error = adapter_error(policy, load_model(recipe, tokenizer, folder), prompts, autocast)
    limit = 1e-4 if recipe.model.dtype == "float32" and autocast is None else 0.05
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


def fitting(recipe: Recipe, config, tokenizer, rows: list[dict]) -> list[dict]:
    """The rows whose prompts leave room for the longest completion in the window of the model, and
    in vLLM's where it samples.

    Raises:
        RecipeError: there are none.
    """
    keys, system = (
        ("max_completion_length", "use_vllm", "vllm_max_model_length"),
        recipe.prompt.system,
    )
    length, by_vllm, served = (configs.setting(recipe, "grpo", key) for key in keys)
    window = config.get_text_config().max_position_embeddings
    most = min(window, served if by_vllm and served else window) - length
    around = len(prompt.question_ids(tokenizer, "", system))
    kept = [
        row
        for row in rows
        # A token is at least one byte, so most rows need not be tokenised.
        if around + len(row["problem"].encode()) <= most
        or len(prompt.question_ids(tokenizer, row["problem"], system)) <= most
    ]
    if not kept:
        room = (
            f"{most:,} tokens for a prompt, and none is that short"
            if most > 0
            else "no room for a prompt"
        )
        place = recipe.place("grpo", "max_completion_length")
        raise RecipeError([Fault(place, f"grpo.max_completion_length leaves {room}")])
    if len(kept) < len(rows):
        say(
            f"grpo: left out {len(rows) - len(kept):,} problems whose prompts have more than"
            f" {most:,} tokens"
        )
    return kept


def with_prompts(rows: list[dict], tokenizer, system: str | None) -> Dataset:
    """The rows with the columns `prompt` (messages) and `think_opened`, and with every other one
    for rewards.

    Raises:
        DataError: a column has values of several types, half a character, or is nested too deeply.
    """
    opened = prompt.think_opened(tokenizer)
    made = [
        for_rewards(row)
        | {
            "prompt": prompt.messages(row["problem"], system),
            "think_opened": opened,
        }
        for row in rows
    ]
    if len({type(each["answer"]) for each in made}) > 1:  # of several sets
        made = [each | {"answer": str(each["answer"])} for each in made]
    try:
        return Dataset.from_list(made)
    except (ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        wrong = "a column has values of several types, half a character, or is nested too deeply"
        raise DataError(f"data.train: {wrong}: {str(error).splitlines()[0]}") from error


class Tokenised(DPOTrainer):
    """DPOTrainer for rows that are token ids already: tokenised by trl from text, a chat template
    that rewrites a turn (or drops its thoughts) would have a say in what is learned."""

    def _prepare_dataset(self, dataset: Dataset, *args, **kwargs) -> Dataset:
        return dataset


def dpo_trainer(
    recipe: Recipe, args: DPOConfig, tokenizer, rows: list[dict], warm_start: Path | None
) -> Tokenised:
    """trl's trainer with the recipe's model and adapter. The reference is what the policy begins
    as: a second model, or of an adapter trl's own frozen copy; without a warm start, the base with
    the adapter switched off.

    Args:
        rows: `prompt_ids`, `chosen_ids` and `rejected_ids` of each pair.
    """
    model = load_model(recipe, tokenizer, warm_start)
    reference = load_model(recipe, tokenizer, warm_start) if recipe.adapter is None else None
    given = {"ref_model": reference, "train_dataset": Dataset.from_list(rows)}
    return _built(Tokenised, "dpo", recipe, model, tokenizer, warm_start, args=args, **given)
