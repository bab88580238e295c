"""GRPO (Shao et al. 2024, arXiv:2402.03300): sample a group of completions a problem, reward each, and push towards
those above their group's mean. The loss, the advantages, the sampling and the adapters are trl's `GRPOTrainer`.

After a warm start the same adapter is trained on, without merging; with `beta > 0` the reference policy is then the
warm start, of which the trainer keeps a frozen copy.
"""

import contextlib
import os
import time
from pathlib import Path

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from data import prompt
from stages import configs
from stages.best_checkpoint import KeepBest
from stages.checkpoints import fault
from stages.cli import RunStopped, is_main_process, make_command, quiet_libraries, run, say
from stages.exact_merge import adapter_error, keep_base_exact
from stages.group_signal import counted
from stages.guards import SECONDS, FiniteNumbers, GuardedReward
from stages.interrupts import Interrupts
from stages.meaning import bind_reward, missing_columns
from stages.model import load_model, load_tokenizer
from stages.problems import load_train, split_held_out
from stages.recipe import Recipe, RecipeError
from stages.run_folder import find_run
from stages.training import keep_adapter_float32, sharded, train


class QuietGRPOTrainer(GRPOTrainer):
    """GRPOTrainer that logs completions to parquet without also printing each as a table, and that answers the held-out
    problems greedily, as the evaluation does."""

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        if self.use_vllm:
            generator, greedy = self.vllm_generation, {"temperature": 0.0}
        else:
            generator, greedy = self.generation_config, {"do_sample": False}
        sampled = {key: getattr(generator, key) for key in greedy}
        # transformers lets a model's own config, which trl fills from these, override a `False`.
        config = getattr(self, "generation_kwargs", {})
        before = dict(config)
        try:
            vars(generator).update(greedy)
            config.update(greedy)
            self.log_completions = False  # the file of this step has the training's, which a reader looks for
            return super().evaluate(*args, **kwargs)
        finally:
            vars(generator).update(sampled)
            config.update(before)
            self.log_completions = self.args.log_completions

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
            super().log(logs, start_time)


def main(recipe: Recipe):
    """Train a recipe's policy with GRPO, from its warm start where it has one."""
    quiet_libraries()
    args = configs.training_config(recipe, "grpo")
    warm_start = recipe.stage_dir("sft") if recipe.sft is not None else None
    if warm_start and not find_run(recipe, "sft").finished:
        raise RecipeError(
            [f"the warm start in {warm_start} is not finished: run `{make_command('sft', recipe)}` first"]
        )
    folder = find_run(recipe, "grpo")
    if folder.finished:
        say(f"grpo: finished already, in {folder.path}")
        return
    if is_main_process():
        folder.lock()
    interrupts = Interrupts(generation_cycle(args))
    began = time.monotonic()
    tokenizer = load_tokenizer(recipe)
    rows, held_out = load_train(recipe)
    judged, _ = split_held_out(recipe, held_out)
    trainer = trainer_for(recipe, args, tokenizer, rows, judged, warm_start)
    if is_main_process():
        folder.begin(rows)
    if folder.checkpoint and recipe.adapter is not None and not sharded(trainer):
        # With a reference, a checkpoint has that adapter in a subfolder, and transformers then loads no other.
        trainer.accelerator.unwrap_model(trainer.model).load_adapter(folder.checkpoint, "default", is_trainable=True)
    if judged:
        trainer.add_callback(KeepBest(recipe.evaluate.patience))
    say(f"grpo: {len(rows):,} problems, from {folder.checkpoint or warm_start or 'the base model'}")
    train(trainer, folder, recipe, interrupts, "grpo")
    best = {"best_checkpoint": trainer.state.best_model_checkpoint, "best_accuracy": trainer.state.best_metric}
    if judged and (wrong := fault(Path(best["best_checkpoint"]))):
        raise RunStopped(f"the best checkpoint, {best['best_checkpoint']}, is not what was saved: {wrong}")
    if recipe.adapter is not None and not sharded(trainer):
        best["adapter_error"] = check_adapter(trainer, recipe, tokenizer, rows, folder.path)
    if is_main_process():
        summary = {"steps": trainer.state.global_step, "seconds": time.monotonic() - began}
        folder.finish(summary | {key: value for key, value in best.items() if value is not None})
    if judged:
        say(f"grpo: kept the best of its checkpoints, {best['best_checkpoint']}, {best['best_accuracy']:.1%} held out")
    say(f"grpo: done, in {folder.path}\nnext: {make_command('eval', recipe)}")


def trainer_for(
    recipe: Recipe, args: GRPOConfig, tokenizer, rows: list[dict], judged: list[dict], warm_start: Path | None
) -> QuietGRPOTrainer:
    """trl's trainer with the recipe's model, adapter, rewards and data; `judged`: the held-out rows that choose the
    checkpoint, none where no checkpoint is chosen.

    Raises:
        RecipeError: a reward asks for a column that the data does not have.
    """
    model = load_model(recipe, tokenizer, warm_start)
    loaded = {name: each.data for name, each in model.named_parameters() if each.requires_grad and recipe.quantization}
    window = min(model.config.get_text_config().max_position_embeddings, args.vllm_max_model_length or 2**63)
    rows = fitting(rows, tokenizer, recipe.prompt.system, window - args.max_completion_length)
    dataset = with_prompts(rows, tokenizer, recipe.prompt.system)
    if faults := missing_columns(recipe.rewards, dataset.column_names):
        raise RecipeError(faults)
    rewards = [
        GuardedReward(bind_reward(name, options), name, options.get("timeout", SECONDS))
        for name, options in recipe.rewards.items()
    ]
    finite = FiniteNumbers()
    counting = counted(rewards, args.reward_weights, args.num_generations)
    trainer = QuietGRPOTrainer(
        model=model,
        reward_funcs=[finite.watching(counting[0]), *counting[1:]],
        args=args,
        train_dataset=dataset,
        eval_dataset=with_prompts(judged, tokenizer, recipe.prompt.system) if judged else None,
        processing_class=tokenizer,
        peft_config=None if warm_start else configs.adapter_config(recipe),
    )
    trainer.add_callback(finite)
    if recipe.quantization is not None:
        keep_adapter_float32(trainer, loaded)
    if recipe.adapter is not None and args.use_vllm:
        keep_base_exact(trainer.accelerator.unwrap_model(trainer.model))
    return trainer


def check_adapter(trainer: GRPOTrainer, recipe: Recipe, tokenizer, rows: list[dict], folder: Path) -> float:
    """Say whether the adapter, loaded as anyone will load it, is the policy that was trained; how far from it, in
    nats. Every process loads it: they wait for one another there."""
    trainer.accelerator.wait_for_everyone()  # the first of them saved it
    prompts = [prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], recipe.prompt.system)) for row in rows[:4]]
    policy = trainer.accelerator.unwrap_model(trainer.model)
    error = adapter_error(policy, load_model(recipe, tokenizer, folder), prompts, trainer.args.bf16)
    limit = 1e-4 if recipe.model.dtype == "float32" and not trainer.args.bf16 else 0.05
    if error <= limit:
        say(f"grpo: the saved adapter on a clean base is the trained policy (log-probabilities within {limit:g})")
    else:
        say(
            f"grpo: WARNING: the saved adapter on a clean base is NOT the trained policy: log-probabilities differ by "
            f"up to {error:.3g}. Evaluate before you trust it"
        )
    return error


def fitting(rows: list[dict], tokenizer, system: str | None, most: int) -> list[dict]:
    """The rows whose prompt has at most so many tokens: a longer one would leave no room for a completion.

    Raises:
        RecipeError: none is left.
    """
    around = len(prompt.prompt_ids(tokenizer, prompt.messages("", system)))
    kept = [
        row
        for row in rows
        # A token is a byte at least, so most rows need not be tokenised to know.
        if around + len(row["problem"].encode()) <= most
        or len(prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], system))) <= most
    ]
    if len(kept) < len(rows):
        say(f"grpo: left out {len(rows) - len(kept):,} problems whose prompts have more than {most:,} tokens")
    if not kept:
        raise RecipeError([f"grpo.max_completion_length leaves {most:,} tokens to a prompt, and none is that short"])
    return kept


def generation_cycle(args: GRPOConfig) -> int:
    """Optimizer steps from one sampling of completions to the next."""
    return max(1, args.steps_per_generation * args.num_iterations // args.gradient_accumulation_steps)


def with_prompts(rows: list[dict], tokenizer, system: str | None) -> Dataset:
    """Columns `prompt` (messages) and `think_opened`, and every column of the rows that a reward may ask for, but not
    the worked solution, which is the warm start's."""
    opened = prompt.think_opened(tokenizer)
    return Dataset.from_list(
        [
            {key: value for key, value in row.items() if key not in ("reasoning", "answer")}
            | {"prompt": prompt.messages(row["problem"], system), "think_opened": opened}
            for row in rows
        ]
    )


if __name__ == "__main__":
    run("grpo", main)
