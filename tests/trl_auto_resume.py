"""What trl's own GRPO script does with a recipe's configuration, data and rewards, and the usual
auto-resume line."""

import os
import sys
from pathlib import Path

from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOTrainer

from schema import configs
from schema.names import bind_reward
from schema.recipe import load_recipe
from training.model import load_model, load_tokenizer
from training.problem_sets import load_train
from training.rows import prompt_dataset

if __name__ == "__main__":
    recipe = load_recipe(sys.argv[1], sys.argv[2:], check=("grpo",))
    args, tokenizer = configs.training_config(recipe, "grpo"), load_tokenizer(recipe)
    # Where a checkpoint falls inside a generation cycle our recipes are refused; trl has no such
    # check.
    args.save_steps = int(os.environ.get("SAVE_STEPS", args.save_steps))
    trainer = GRPOTrainer(
        model=load_model(recipe, tokenizer, recipe.stage_dir("sft")),
        reward_funcs=[bind_reward(name, options) for name, options in recipe.rewards.items()],
        args=args,
        train_dataset=prompt_dataset(load_train(recipe)[0], tokenizer, recipe.prompt.system),
        processing_class=tokenizer,
    )
    last = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model()
