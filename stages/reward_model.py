"""Trains a reward model on a GRPO run's own completions: of each problem a right one and a wrong one, told apart by the
verifier. trl's `RewardTrainer` makes it of the recipe's base model; the reward `learned` then loads it.

`python -m stages.reward_model outputs/<recipe> [reward_model.max_steps=200 …]`; docs/rewards.md says what it is for.
"""

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from runs.folder import find
from schema.faults import Fault, RecipeError
from schema.meaning import ONE_TURN
from schema.names import LEARNED
from stages.cli import run
from stages.frame import Start, Trained, Training, train_stage
from training.pairs import PAIRS, write_pairs
from training.run_folder import recipe_of
from training.writing import link_inside


def main(run: list[str]):
    """Train a reward model on the completions of a GRPO run."""
    overrides = [each for each in run if "=" in each]
    path = find([each for each in run if "=" not in each])[0]
    if wrong := link_inside(path):
        raise RecipeError([wrong])
    train_stage("reward-model", recipe_of(path, overrides), partial(right_above_wrong, path))


def right_above_wrong(sampled: Path, start: Start) -> Iterator[Training | Trained]:
    from evaluation.pairs import LEAST, accuracy, reward_pairs, split
    from training.reward_model import base_with_head, load_reward_model, merge_adapter, reward_trainer

    recipe, args, folder = start.recipe, start.args, start.folder.path
    if recipe.tools:
        raise RecipeError([Fault(recipe.place("tools"), f"reward-model: {ONE_TURN}")])
    pairs = reward_pairs(sampled, {row["problem"] for row in start.rows}, recipe.seed)
    if (problems := len({each.problem for each in pairs})) < LEAST:
        message = f"{problems} training problems have a right and a wrong completion in one group; {LEAST} are needed"
        hint = "a longer run has more, and so has a lower grpo.logging_steps: completions are written at these steps"
        raise RecipeError([Fault(str(sampled / "completions"), f"{message} ({hint})")])
    learned, measured = split(pairs, recipe.seed)
    rows = [each.row() for each in learned]
    trainer = reward_trainer(recipe, args, start.tokenizer, rows, base_with_head(recipe))
    if not (count := len(trainer.train_dataset)):
        message = f"reward_model.max_length: no pair fits into {args.max_length} tokens"
        raise RecipeError([Fault(recipe.place("reward_model", "max_length"), message)])
    learns = f"{count:,} pairs of {len({each.problem for each in learned}):,} problems"
    yield Training(trainer, learns, start.rows, [[each.problem, each.right, each.wrong] for each in learned])
    merge_adapter(trainer.accelerator.unwrap_model(trainer.model), folder)
    trainer.model.cpu()  # or the loaded one would need room beside it
    write_pairs(folder / PAIRS, learned)  # a run that refreshes the model learns some of them again
    (folder / "README.md").unlink(missing_ok=True)  # trl's card, which knows nothing of the pairs
    as_reward = {LEARNED: {"model": str(folder)}}  # as any recipe would load it
    figures = accuracy(load_reward_model(dataclasses.replace(recipe, rewards=recipe.rewards | as_reward)), measured)
    share = f"{figures['accuracy']:.1%} of {figures['pairs']:,} pairs of {figures['problems']:,} problems held back"
    interval = f"95% interval {figures['low']:.1%} to {figures['high']:.1%}"
    told = f"right above wrong in {share} ({interval})"
    yield Trained({"pairs": count, "measured": figures}, [told], use(figures, folder))


def use(figures: dict, folder: Path) -> str:
    """What the model is good for, by its accuracy on pairs that were held back."""
    if figures["low"] > 0.5:
        return f"; in a recipe: rewards.{LEARNED}: {{model: {folder}, weight: 0.5}}"
    return (
        "; it has learned nothing that can be measured, so do not reward by it yet: a longer run has more pairs, "
        "and so has one with a lower grpo.logging_steps"
    )


if __name__ == "__main__":
    what = "the folder of a GRPO run, else the newest; and overrides, key=value"
    run("reward_model", main, {"run": {"nargs": "*", "help": what}}, of_recipe=False)
