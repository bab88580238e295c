"""Trains a reward model on a GRPO run's own completions: of each problem a right one and a wrong one, told apart by the
verifier. trl's `RewardTrainer` makes it of the recipe's base model; the reward `learned` then loads it.

`python -m stages.reward_model outputs/<recipe> [reward_model.max_steps=200 …]`; docs/rewards.md says what it is for.
"""

import argparse
import dataclasses
import time

from schema import configs, hardware
from schema.faults import RecipeError
from schema.names import LEARNED
from schema.recipe import require_values
from schema.requirements import require
from schema.terminal import say
from stages.cli import mistakes_reported, quiet_libraries
from training.reward_pairs import PAIRS, write_pairs
from training.run_folder import find_run, recipe_of
from training.writing import link_inside
from viewer.runs import find

STAGE = "reward-model"


def main(run: list[str]):
    """Train a reward model on the completions of a GRPO run."""
    overrides = [each for each in run if "=" in each]
    path = find([each for each in run if "=" not in each])[0]
    if wrong := link_inside(path):
        raise RecipeError([wrong])
    asked = recipe_of(path, overrides)
    recipe = hardware.fitted(asked)
    folder = find_run(recipe, STAGE, to_train=True)
    if folder.finished:
        say(f"reward model: finished already, in {folder.path}")
        return
    require(recipe, ("reward-model",))
    say(f"reward model: {hardware.line(recipe, asked.model.dtype)}")
    quiet_libraries()

    from evaluation.pairs import accuracy, require_enough, reward_pairs, split
    from schema.problem_sets import load_train
    from training.guards import FiniteNumbers
    from training.interrupts import Interrupts
    from training.model import load_tokenizer
    from training.reward_model import load_reward_model, merge_adapter, new_reward_trainer
    from training.train import train

    require_values(recipe, "reward_model")
    args, interrupts, began = configs.training_config(recipe, "reward_model"), Interrupts(), time.monotonic()
    rows, _ = load_train(recipe)
    pairs = reward_pairs(path, {row["problem"] for row in rows}, recipe.seed)
    require_enough(pairs, path)
    learned, measured = split(pairs, recipe.seed)
    trainer = new_reward_trainer(recipe, args, load_tokenizer(recipe), [each.row() for each in learned])
    folder.begin(rows, [[each.problem, each.right, each.wrong] for each in learned])
    of = f"{len(trainer.train_dataset):,} pairs of {len({each.problem for each in learned}):,} problems"
    say(f"reward model: {of}, from {folder.checkpoint or 'the base model'}")
    trainer.add_callback(FiniteNumbers())
    train(trainer, folder, recipe, interrupts, STAGE)
    merge_adapter(trainer.accelerator.unwrap_model(trainer.model), folder.path)
    trainer.model.cpu()  # or the loaded one would need room beside it
    write_pairs(folder.path / PAIRS, learned)  # a run that refreshes the model learns some of them again
    (folder.path / "README.md").unlink(missing_ok=True)  # trl's card, which knows nothing of the pairs
    as_reward = {LEARNED: {"model": str(folder.path)}}  # as any recipe would load it
    figures = accuracy(load_reward_model(dataclasses.replace(recipe, rewards=recipe.rewards | as_reward)), measured)
    summary = {"steps": trainer.state.global_step, "pairs": len(trainer.train_dataset)}
    folder.finish(summary | {"seconds": time.monotonic() - began, "measured": figures})
    share = f"{figures['accuracy']:.1%} of {figures['pairs']:,} pairs of {figures['problems']:,} problems held back"
    say(f"reward model: right above wrong in {share} (95% interval {figures['low']:.1%} to {figures['high']:.1%})")
    say(f"reward model: done, in {folder.path}; in a recipe: rewards.{LEARNED}: {{model: {folder.path}, weight: 0.5}}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.reward_model", description=main.__doc__)
    parser.add_argument("run", nargs="*", help="the folder of a GRPO run, else the newest; and overrides, key=value")
    with mistakes_reported():
        main(parser.parse_args().run)
