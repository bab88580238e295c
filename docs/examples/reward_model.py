"""A reward model: trl's RewardTrainer on the pairs of a finished GRPO run, as docs/examples/dpo.py
takes them.

    .venv/bin/python docs/examples/reward_model.py outputs/x/grpo outputs/reward-model

The run, whose policy with all its weights it begins with; and the folder to write, which a recipe
then names: `rewards: {outputs/reward-model: {weight: 0.5}}`. Here the run's own rewards say which
completion is better, so that they alone would do: put people's or a judge's choice in their place.
"""

import sys
from pathlib import Path

from datasets import Dataset
from dpo import pairs_of
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

run, folder = sys.argv[1:]
trainer = RewardTrainer(
    AutoModelForSequenceClassification.from_pretrained(run, num_labels=1),
    RewardConfig(folder, learning_rate=1e-4, bf16=False, report_to="none"),
    train_dataset=Dataset.from_list(pairs_of(Path(run))),
    processing_class=AutoTokenizer.from_pretrained(run),
)
trainer.train()
trainer.save_model()
