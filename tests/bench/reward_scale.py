"""Which scale suits three rewards? tiny-arithmetic with the rewards of the Qwen recipes and a
teacher who slips in each of them, trained with each of four settings from one warm start a seed.

    OMP_NUM_THREADS=1 python -m tests.bench.reward_scale

Some 35 minutes on a quiet core; finished runs in outputs/reward-scale are kept. Chosen before the
first run: each setting is judged on answers to the validation problems, sampled as in training, by
the share that is correct, by the share with its tags in order, and by the share of English; then by
how many completions it took until 80% of the last 320 were correct (all of them, where a run did
not get there). A setting replaces trl's `group` in the Qwen recipes where it is better in one of
the four by more than its interval over seeds and worse in none.

With --advantages it trains nothing, and prints what trl's formulas (GRPOTrainer of 1.16) make of a
few groups of eight in a random batch of 320.

Look at the warm start first: with 200 steps of it in place of 350, one sampled answer of 16 was
correct (half of them greedily), and no setting learned sums.
"""

import argparse
import shutil
import time
from pathlib import Path
from random import Random

import numpy as np
import torch

from data.made import arithmetic
from evaluation.statistics import over_seeds
from rewards import format_tags, language_consistency
from runs.files import read_lines
from tests.support import run_stage

ROOT = Path("outputs/reward-scale")
SEEDS = [1, 2, 3, 4, 5]
RECIPE = "recipes/tiny-arithmetic.yaml"
COMMON = [
    "data.train=[tests.bench.reward_scale.untidy_sums]",
    "rewards.language_consistency={weight: 0.125}",
    "grpo.logging_steps=2",
    "grpo.max_completion_length=80",
    "evaluate.temperature=1.0",  # greedily, the warm start already has its tags and its English
]
SETTINGS = {
    "group": [],
    "batch": ["grpo.scale_rewards=batch"],
    "none": ["grpo.scale_rewards=none"],
    "normalize_then_sum": ["grpo.multi_objective_aggregation=normalize_then_sum"],
}
WEIGHTS = torch.tensor([1.0, 0.25, 0.125])  # correct, tags, English, as in the Qwen recipes
BATCH = 32  # completions of a logged line: two steps learn from them
WINDOW = 320 // BATCH


def untidy_sums(split: str) -> list[dict]:
    """Sums in words by a teacher who forgets three carries in four, goes on in German in one row of
    four, and in one of four gives the answer twice, which costs the tags their reward."""
    rows = arithmetic(split, slips=0.75)
    draw = Random(0)
    for row in rows:
        first, second = row["reasoning"].split(", ")
        words = "und dann sind es" if draw.random() < 0.25 else "and then we get"
        row["reasoning"] = f"we get {first} {words} {second}"
        row["language"] = "en"
        if draw.random() < 0.25:
            row["answer"] += f"</answer>\n<answer>{row['answer']}"
    return rows


def train(setting: str, seed: int):
    """Train and evaluate one setting, from the warm start that the first one trained."""
    folder = ROOT / setting / f"seed-{seed}"
    warm_start = ROOT / "group" / f"seed-{seed}/sft"
    if setting != "group" and not (folder / "sft").exists():
        shutil.copytree(warm_start, folder / "sft")
    words = [RECIPE, *COMMON, *SETTINGS[setting], f"seed={seed}", f"output_dir={folder}"]
    for stage in ("sft", "grpo"):
        run_stage(stage, *words)
    models = [f"--model={folder / 'grpo'}"]
    if setting == "group":
        models.insert(0, f"--model={warm_start}")
    run_stage("evaluate", *words, "--validation", *models)


def completions_to_80(run: Path) -> int:
    """How many completions a run sampled until 80% of the last `WINDOW` batches were correct."""
    key = "rewards/correct_answer/mean"
    shares = [line[key] for line in read_lines(run / "metrics.jsonl") if key in line]
    for end in range(WINDOW, len(shares)):
        if sum(shares[end - WINDOW : end]) >= 0.8 * WINDOW:
            return end * BATCH
    return len(shares) * BATCH


def measured(setting: str, seed: int, stage: str = "grpo") -> list[float]:
    """The four measures of a trained setting; the first three of a warm start."""
    folder = ROOT / setting / f"seed-{seed}"
    answers = list(read_lines(folder / f"eval/models/validation/{stage}.jsonl"))[1:]
    texts = [answer["completion"] for answer in answers]
    scores = [
        [answer["correct"] is True for answer in answers],
        format_tags(texts),
        language_consistency(texts, language=["en"] * len(texts)),
    ]
    shares = [100 * sum(values) / len(values) for values in scores]
    return shares if stage == "sft" else [*shares, completions_to_80(folder / "grpo")]


def say_row(name: str, of_seeds: np.ndarray, form: str):
    """Print the means of measures, of shape (seeds, measures), with their 95% intervals."""
    cells = []
    for values in of_seeds.T:
        mean, half_width = over_seeds(values)
        cells.append(f"{mean:{form}} ± {half_width:,.1f}")
    print(f"| {name} | {' | '.join(cells)} |")


def say_results(seeds: list[int]):
    """Print each setting's means, and its differences to `group`, paired by seed."""
    print("| setting | correct, % | tags, % | English, % | completions to 80% |")
    print("| --- | ---: | ---: | ---: | ---: |")
    say_row("warm start", np.array([measured("group", seed, "sft") for seed in seeds]), ",.1f")
    group = np.array([measured("group", seed) for seed in seeds])
    for name in SETTINGS:
        of_seeds = np.array([measured(name, seed) for seed in seeds])
        say_row(name, of_seeds, ",.1f")
        if name != "group":
            say_row(f"{name} − group", of_seeds - group, "+,.1f")


def advantages(setting: str, scores: torch.Tensor) -> torch.Tensor:
    """The advantages, of shape (groups, 8), of the three rewards of each completion."""
    if setting == "normalize_then_sum":
        deviation = scores.std(1, keepdim=True) + 1e-4
        total = ((scores - scores.mean(1, keepdim=True)) / deviation) @ WEIGHTS
        return (total - total.mean()) / (total.std() + 1e-4)
    total = scores @ WEIGHTS
    scales = {"group": total.std(1, keepdim=True) + 1e-4, "batch": total.std() + 1e-4, "none": 1}
    return (total - total.mean(1, keepdim=True)) / scales[setting]


def say_advantages(correct: float):
    """Print them for a batch with this mean share of correct answers, 95% of the tags, and a tenth
    of another language in 5% of the completions."""
    torch.manual_seed(0)
    of_problem = torch.distributions.Beta(4 * correct, 4 * (1 - correct)).sample((40, 1))
    draws = torch.rand(3, 40, 8)
    parts = [draws[0] < of_problem, draws[1] < 0.95, 1 - 0.1 * (draws[2] < 0.05).float()]
    scores = torch.stack([part.float() for part in parts], -1)
    scores[:3] = 1
    scores[0, 0, 1] = 0  # the only one without tags
    scores[1, 0, 2] = 0.9  # the only one with a tenth of another language
    scores[2, 1:, 0] = 0  # the only correct one
    print(f"of a batch {scores[..., 0].mean():.0%} are correct")
    all_correct = scores[..., 0].all(1)
    for setting in SETTINGS:
        values = advantages(setting, scores)
        share = values[all_correct].abs().sum() / values.abs().sum()
        cells = [f"{value:+.2f}" for value in values[:3, 0]]
        print(f"| {setting} | {' | '.join(cells)} | {share:.0%} |")


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--advantages", action="store_true", help="print them, and train nothing")
    if parser.parse_args().advantages:
        say_advantages(0.5)
        say_advantages(0.9)
        return
    for seed in SEEDS:
        for setting in SETTINGS:
            began = time.monotonic()
            train(setting, seed)
            print(f"seed {seed}, {setting}: {time.monotonic() - began:.0f} s", flush=True)
    say_results(SEEDS)


if __name__ == "__main__":
    main()
