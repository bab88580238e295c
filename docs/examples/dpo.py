"""DPO (Rafailov et al. 2023, arXiv:2305.18290) with trl's DPOTrainer on what a finished GRPO run
sampled: the best completion of each group against the worst.

    .venv/bin/python docs/examples/dpo.py outputs/x/grpo outputs/x/sft outputs/x-dpo

The run; the model to begin with, which is the reference too: a folder with all its weights or a Hub
id; and the folder to write. A run with `grpo.logging_steps: 2` has written every group.
"""

import sys
from pathlib import Path

import pandas as pd
from datasets import Dataset
from transformers import AutoTokenizer
from trl import DPOConfig, DPOTrainer

SETTINGS = {
    "max_steps": 120,
    "per_device_train_batch_size": 32,
    "learning_rate": 5e-5,
    # `sigmoid` alone makes both completions rarer, and ended below its warm start.
    "loss_type": ["sigmoid", "sft"],
    "bf16": False,
    "report_to": "none",
}


def pairs_of(run: Path) -> list[dict[str, list[dict]]]:
    """`prompt`, `chosen` and `rejected` of each group whose completions did not all earn the same.
    A batch that was used twice counts once. A completion that was cut off is left out, because trl
    would end it."""
    pairs = {}
    rows = pd.read_parquet(run / "completions")
    for _, batch in rows[~rows["truncated"]].groupby("step"):
        for question, group in batch.groupby(batch["prompt"].map(str)):
            ranked = group.sort_values("advantage", kind="stable")
            worst = ranked.iloc[0]
            best = ranked.iloc[-1]
            if best["advantage"] > worst["advantage"]:
                key = (question, str(best["completion"]), str(worst["completion"]))
                pair = {"prompt": best["prompt"], "chosen": best["completion"]}
                pair["rejected"] = worst["completion"]
                pairs[key] = {name: list(messages) for name, messages in pair.items()}
    return list(pairs.values())


if __name__ == "__main__":
    run, model, folder = sys.argv[1:]
    trainer = DPOTrainer(
        model,
        args=DPOConfig(folder, **SETTINGS),
        train_dataset=Dataset.from_list(pairs_of(Path(run))),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    trainer.train()
    trainer.save_model()
