"""Which method gains most from the same number of sampled completions? The plan and its rule of
decision are docs/study/methods/plan.md; what this writes beside it are outcomes, one line for each
(task, arm, seed, measure): which problems were correct. Each run resumes where it was stopped:

    python -m tests.bench.methods run tiny --seeds 1 2 3 4 5
    python -m tests.bench.methods table
    python -m tests.bench.methods picture tiny --file docs/img/methods.png
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import numpy as np

from evaluation.methods import draw, in_percent, scores
from runs.records import BASE
from tests.support import ROOT

STUDY = ROOT / "docs/study/methods"
OUTPUTS = ROOT / "outputs/methods"
TUNING = (
    100  # seeds above it choose settings, on held-out problems; the others report, on the test's
)


@dataclass(frozen=True)
class Task:
    """A recipe whose warm start all arms share.

    Attributes:
        completions: the budget of an arm, in sampled completions.
        samples: of a problem, for rejection sampling and for the sampled measure.
        rft_steps: updates of rejection sampling's fine-tuning.
        limit, sampled_limit: how many problems measure a policy greedily, and sampled; 0 for none.
        sft: how a recipe without a warm start fine-tunes on solutions: its arms begin at the base.
        settings: of all stages, such as where a model lies.
    """

    recipe: str
    completions: int
    samples: int
    rft_steps: int
    limit: int
    sampled_limit: int
    sft: str | None = None
    settings: tuple[str, ...] = ()


TASKS = {
    "tiny": Task("recipes/tiny-arithmetic.yaml", 3840, 8, 350, 800, 120),
    "smollm2": Task("recipes/smollm2-arithmetic.yaml", 2880, 8, 80, 400, 120),
    "svamp": Task(
        "recipes/qwen-coder-0.5b-svamp.yaml",
        512,
        8,
        16,
        300,
        0,
        "per_device_train_batch_size: 16, learning_rate: 1.0e-4, gradient_checkpointing: false",
    ),
}


@dataclass(frozen=True)
class Arm:
    """One way to spend the budget.

    Attributes:
        train: trains into a folder, and returns the folder of the stage that holds the policy.
        completions, updates: what it spends, for the table.
    """

    train: Callable[[Task, int, Path], Path | str]
    completions: int
    updates: str


def run_stage(name: str, task: Task, *arguments: object):
    """Run a stage to its end, however long that takes.

    Raises:
        CalledProcessError: it failed; what it printed stands above.
    """
    words = [sys.executable, "-m", "stages", name, task.recipe, *task.settings]
    words += map(str, arguments)
    subprocess.run(words, cwd=ROOT, check=True, stdout=sys.stderr)


def stage(name: str, task: Task, seed: int, folder: Path, *settings: object):
    """Run a stage of a task's recipe in a folder, unless it is finished."""
    if (folder / name / "summary.json").is_file():
        return
    run_stage(name, task, f"seed={seed}", f"output_dir={folder}", *settings)


def warm_start(task: Task, seed: int, folder: Path) -> Path | str:
    """The folder of the warm start, or `base` where the recipe has none."""
    if task.sft:
        return BASE
    stage("sft", task, seed, folder.parent / "warm-start")
    return folder.parent / "warm-start/sft"


def grpo(*settings: str):
    """GRPO from the warm start, with these settings in place of the recipe's."""

    def train(task: Task, seed: int, folder: Path) -> Path:
        first = warm_start(task, seed, folder)
        if first != BASE and not (folder / "sft").exists():
            shutil.copytree(first, folder / "sft")
        stage("grpo", task, seed, folder, *settings)
        return folder / "grpo"

    return train


def step_4(task: Task, seed: int, folder: Path) -> Path:
    """The checkpoint in the middle of the arm "GRPO" of a seed."""
    return ARMS["svamp"]["GRPO"].train(task, seed, folder.parent / "GRPO") / "checkpoint-4"


def rejection_settings(
    task: Task, policy: Path | str, problems: int, samples: int, steps: float
) -> list[str]:
    """What a warm start of rejection sampling from a policy has in place of the recipe's."""
    own = f"problems: {problems}, samples: {samples}, keep: {samples}"
    if policy != BASE:
        own += f", model: {policy}"
    settings = [f"data.rejection_sampling={{{own}}}"]
    settings += ["data.worked=null"] * (task.recipe != TASKS["tiny"].recipe)
    settings += [f"sft={{{task.sft}}}"] * bool(task.sft)
    settings += [f"sft.max_steps={round(task.rft_steps * steps)}"]
    return settings


def rejection(share: float = 1.0, rounds: int = 1, steps: float = 1.0):
    """Rejection sampling: each round samples all its problems from the policy before it, and
    fine-tunes the base on the different correct completions, for `steps` times the task's steps.
    The rounds share a problem's samples."""

    def train(task: Task, seed: int, folder: Path) -> Path:
        policy = warm_start(task, seed, folder)
        problems = round(task.completions * share / task.samples)
        for number in range(rounds):
            samples = (task.samples + rounds - 1 - number) // rounds
            place = folder / f"round-{number + 1}"
            settings = rejection_settings(task, policy, problems, samples, steps)
            stage("rejection-sampling", task, seed, place, *settings)
            stage("sft", task, seed, place, *settings)
            policy = place / "sft"
        return policy

    return train


def rejection_then_grpo(*settings: str):
    """Rejection sampling on half of the budget, then GRPO from it, with these settings."""

    def train(task: Task, seed: int, folder: Path) -> Path:
        rejection(1 / 2)(task, seed, folder)
        problems = round(task.completions / 2 / task.samples)
        first = warm_start(task, seed, folder)
        own = rejection_settings(task, first, problems, task.samples, steps=1.0)
        stage("grpo", task, seed, folder / "round-1", *own, *settings)
        return folder / "round-1/grpo"

    return train


ARMS = {
    "tiny": {
        "warm start": Arm(warm_start, 0, "-"),
        "GRPO": Arm(grpo(), 3840, "240 of 32"),
        "GRPO, each batch once": Arm(
            grpo("grpo.num_iterations=1", "grpo.max_steps=120"), 3840, "120 of 32"
        ),
        "GRPO, each batch once, 240 of 16": Arm(
            grpo("grpo.num_iterations=1", "grpo.per_device_train_batch_size=16"), 3840, "240 of 16"
        ),
        "GRPO, each batch three times": Arm(
            grpo("grpo.num_iterations=3", "grpo.max_steps=360"), 3840, "360 of 32"
        ),
        "GRPO, β 0.001": Arm(grpo("grpo.beta=0.001"), 3840, "240 of 32"),
        "GRPO, a third": Arm(grpo("grpo.max_steps=80"), 1280, "80 of 32"),
        "GRPO, three times": Arm(grpo("grpo.max_steps=720"), 11520, "720 of 32"),
        "GRPO, three times, constant rate": Arm(
            grpo("grpo.max_steps=720", "grpo.lr_scheduler_type=constant"), 11520, "720 of 32"
        ),
        "GRPO, three times, twice the rate": Arm(
            grpo("grpo.max_steps=720", "grpo.learning_rate=1.0e-4"), 11520, "720 of 32"
        ),
        "GRPO, three times, each batch four times": Arm(
            grpo("grpo.max_steps=1440", "grpo.num_iterations=4"), 11520, "1,440 of 32"
        ),
        "RFT": Arm(rejection(), 3840, "350 of 64"),
        "RFT, half the updates": Arm(rejection(steps=1 / 2), 3840, "175 of 64"),
        "RFT, twice the updates": Arm(rejection(steps=2), 3840, "700 of 64"),
        "RFT, a third": Arm(rejection(1 / 3), 1280, "350 of 64"),
        "RFT, a third, twice the updates": Arm(rejection(1 / 3, steps=2), 1280, "700 of 64"),
        "RFT, a third, four times the updates": Arm(rejection(1 / 3, steps=4), 1280, "1400 of 64"),
        "RFT, three times": Arm(rejection(3), 11520, "350 of 64"),
        "RFT in three rounds": Arm(rejection(rounds=3), 3840, "3 x 350 of 64"),
        "RFT in three rounds, three times": Arm(rejection(3, 3), 11520, "3 x 350 of 64"),
        "RFT, then GRPO": Arm(
            rejection_then_grpo("grpo.max_steps=120"), 3840, "350 of 64, 120 of 32"
        ),
    },
    "smollm2": {
        "warm start": Arm(warm_start, 0, "-"),
        "GRPO": Arm(grpo(), 2880, "45 of 64"),
        "GRPO, each batch twice": Arm(
            grpo("grpo.num_iterations=2", "grpo.max_steps=90", "grpo.save_steps=30"),
            2880,
            "90 of 64",
        ),
        "RFT": Arm(rejection(), 2880, "80 of 16"),
        "GRPO, each batch once, 90 of 32": Arm(
            grpo("grpo.per_device_train_batch_size=32", "grpo.max_steps=90", "grpo.save_steps=30"),
            2880,
            "90 of 32",
        ),
        "RFT in three rounds": Arm(rejection(rounds=3), 2880, "3 x 80 of 16"),
        "RFT, then GRPO, each batch twice": Arm(
            rejection_then_grpo("grpo.num_iterations=2", "grpo.max_steps=46", "grpo.save_steps=46"),
            2912,
            "80 of 16, 46 of 64",
        ),
    },
    "svamp": {
        "base": Arm(warm_start, 0, "-"),
        "GRPO": Arm(grpo("grpo.eval_steps=null"), 512, "8 of 64"),
        "GRPO, its step 4": Arm(step_4, 256, "4 of 64"),
        "GRPO, half": Arm(
            grpo("grpo.eval_steps=null", "grpo.max_steps=4", "grpo.save_steps=4"), 256, "4 of 64"
        ),
        "RFT, half": Arm(rejection(1 / 2), 256, "16 of 16"),
        "GRPO, β 0.001": Arm(grpo("grpo.eval_steps=null", "grpo.beta=0.001"), 512, "8 of 64"),
        "RFT": Arm(rejection(), 512, "16 of 16"),
        "RFT, twice the updates": Arm(rejection(steps=2), 512, "32 of 16"),
        "GRPO, each batch twice": Arm(
            grpo("grpo.eval_steps=null", "grpo.num_iterations=2", "grpo.max_steps=16"),
            512,
            "16 of 64",
        ),
    },
}

# The arms that one method has at several budgets, for the picture.
CURVES = {
    "tiny": {
        "GRPO": ["GRPO, a third", "GRPO", "GRPO, three times"],
        "RFT": ["RFT, a third", "RFT", "RFT, three times"],
        "RFT, twice the updates": ["RFT, a third, twice the updates", "RFT, twice the updates"],
        "RFT in three rounds": ["RFT in three rounds", "RFT in three rounds, three times"],
        "RFT, then GRPO": ["RFT, then GRPO"],
    },
    "smollm2": {
        "GRPO, each batch once": ["GRPO"],
        "GRPO, each batch twice": ["GRPO, each batch twice"],
        "RFT": ["RFT"],
        "RFT in three rounds": ["RFT in three rounds"],
    },
}


# What a greedy answer is, besides correct, by the measure that counts it (evaluation/methods.py).
READINGS = {
    "lenient": lambda answer: answer["lenient"],
    "answered": lambda answer: answer["answer"] is not None,
}


def outcomes_of(file: Path, samples: int, counts: Callable = itemgetter("correct")) -> list[int]:
    """How many of a problem's samples count, a number for each problem, in their order."""
    numbers: dict[int, int] = {}
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        answer = json.loads(line)
        numbers[answer["id"]] = numbers.get(answer["id"], 0) + counts(answer)
    assert max(numbers.values()) <= samples
    return [numbers[problem] for problem in sorted(numbers)]


def measure(task: Task, seed: int, policy: Path | str, folder: Path) -> dict[str, list[int]]:
    """Answer the test problems (held-out ones, for a seed that tunes) greedily, and some of them
    eight times at temperature 1, and return the outcomes by measure."""
    counts = {}
    for name, samples, temperature, limit in [
        ("greedy", 1, 0, task.limit),
        ("sampled", task.samples, 1, task.sampled_limit),
    ]:
        if not limit:
            continue
        place = folder / name
        settings = [f"evaluate.samples={samples}", f"evaluate.temperature={temperature}"]
        settings += [f"evaluate.limit={limit}", "evaluate.control=false"]
        words = [f"seed={seed}", f"output_dir={place}", *settings, f"--model={policy}"]
        words += ["--validation"] * (seed > TUNING)
        run_stage("evaluate", task, *words)
        [file] = [
            path
            for path in (place / "eval/models").rglob("*.jsonl")
            if not path.name.endswith(".seconds.jsonl")
        ]
        counts[name] = outcomes_of(file, samples)
        for reading, is_read in READINGS.items() if name == "greedy" else ():
            counts[reading] = outcomes_of(file, samples, is_read)
    return counts


def run(name: str, seeds: list[int], arms: list[str], file: Path, settings: Sequence[str] = ()):
    """Train and measure what the file of outcomes does not hold yet. `settings`: of all stages."""
    lines = []
    if file.is_file():
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    finished = {(line["arm"], line["seed"]) for line in lines}
    task = replace(TASKS[name], settings=tuple(settings))
    for arm_name in arms or ARMS[name]:
        for seed in seeds:
            if (arm_name, seed) in finished:
                continue
            arm = ARMS[name][arm_name]
            folder = OUTPUTS / name / f"seed-{seed}" / arm_name.replace(" ", "-").replace(",", "")
            policy = arm.train(task, seed, folder)
            counts = measure(task, seed, policy, folder)
            with file.open("a", encoding="utf-8") as handle:
                for kind, correct in counts.items():
                    line = {"task": name, "arm": arm_name, "seed": seed, "measure": kind}
                    line["samples"] = task.samples if kind == "sampled" else 1
                    line |= {"completions": arm.completions, "updates": arm.updates}
                    line["correct"] = "".join(map(str, correct))
                    handle.write(json.dumps(line) + "\n")
            share = statistics.mean(counts["greedy"])
            print(f"{name}, {arm_name}, seed {seed}: {share:.1%} greedily", flush=True)


# A column's title: which outcomes, and what their shares of correct samples count for.
MEASURES = {
    "greedily": ("greedy", lambda shares: shares),
    "read leniently": ("lenient", lambda shares: shares),
    "holds an answer": ("answered", lambda shares: shares),
    "sampled": ("sampled", lambda shares: shares),
    "pass@8": ("sampled", lambda shares: shares > 0),
}


def gain(own: np.ndarray, control: np.ndarray) -> str:
    """The paired difference of an arm to its control in points, with its 95 % intervals over seeds
    and, if the problems were drawn anew, over problems.

    Args:
        own, control: what each problem scores, shape (seeds, problems).
    """
    by_problem = own.mean(0) - control.mean(0)
    half = 196 * by_problem.std(ddof=1) / math.sqrt(len(by_problem))
    return f"{in_percent(own.mean(1) - control.mean(1))} (problems ± {half:.1f})"


def table(lines: list[dict], task: str, tuning: bool, control: str = "RFT") -> str:
    """Markdown: a row for the warm start and for each arm of the control's budget, with its paired
    difference to the control, by measure; of the seeds that choose settings, or of those that
    report."""
    lines = [line for line in lines if (line["seed"] > TUNING) is tuning]
    budget = ARMS[task][control].completions or max(line["completions"] for line in lines)
    lines = [line for line in lines if line["completions"] in (0, budget)]
    present = {line["arm"] for line in lines}
    kinds = {line["measure"] for line in lines}
    for arm in present:  # older lines lack some
        kinds &= {line["measure"] for line in lines if line["arm"] == arm}
    measures = {title: of for title, of in MEASURES.items() if of[0] in kinds}
    titles = ["arm", "completions", "updates", "seeds"]
    for title in measures:
        titles += [title, f"− {control}"]
    rows = [f"| {' | '.join(titles)} |", "|---|---:|---|---:" + "|---:" * 2 * len(measures) + "|"]
    seeds = {arm: {line["seed"] for line in lines if line["arm"] == arm} for arm in ARMS[task]}
    for arm in filter(seeds.get, ARMS[task]):
        first = next(line for line in lines if line["arm"] == arm)
        cells = [arm, f"{first['completions']:,}", first["updates"], str(len(seeds[arm]))]
        common = seeds[arm] & seeds[control]
        if control == BASE:  # which answers alike for all seeds
            common = seeds[arm] | seeds[BASE]
        paired = [line for line in lines if line["seed"] in common]
        for kind, score in measures.values():
            cells.append(in_percent(score(scores(lines, arm, kind)).mean(1)))
            cells.append("")
            if paired and arm != control:
                own, controls = (score(scores(paired, name, kind)) for name in (arm, control))
                cells[-1] = gain(own, controls)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def picture(lines: list[dict], task: str, file: Path):
    """Draw the accuracy of each method over its completions, of the seeds that report."""
    methods = {arm: method for method, arms in CURVES[task].items() for arm in arms}
    drawn = []
    for line in lines:
        if line["seed"] <= TUNING and line["arm"] in (*methods, "warm start"):
            drawn.append(line | {"method": methods.get(line["arm"]), "start": "warm start"})
    present = {line["method"] for line in drawn}
    draw(file, drawn, [method for method in CURVES[task] if method in present])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["run", "table", "picture"])
    parser.add_argument("task", nargs="?", choices=list(TASKS), default="tiny")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", nargs="+", default=[])
    parser.add_argument("--set", nargs="+", default=[], help="KEY=VALUE for all stages")
    parser.add_argument("--tuning", action="store_true", help="the table of the seeds that choose")
    parser.add_argument("--control", default="RFT", help="the arm that others are compared with")
    parser.add_argument("--file", type=Path, default=Path("methods.png"), help="the picture")
    parser.add_argument("--outcomes", type=Path, help="default: docs/study/methods/TASK.jsonl")
    options = parser.parse_args()
    file = options.outcomes or STUDY / f"{options.task}.jsonl"
    if options.verb == "run":
        os.environ["OMP_NUM_THREADS"] = "1"
        run(options.task, options.seeds, options.arms, file, options.set)
    else:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if options.verb == "picture":
            picture(lines, options.task, options.file)
        else:
            print(table(lines, options.task, options.tuning, options.control))


if __name__ == "__main__":
    main()
