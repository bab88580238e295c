"""A run's folder for the tests of the page: every file as a real run writes it, with texts that try
to break out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from tests.support import write_lines

# What a model may write, and a page must show as text.
HOSTILE = [
    "<think>1</think><answer>2</answer><script>window.broken = 1</script>",
    '<img src=x onerror="window.broken = 2">',
    "</script><script>window.broken = 3</script><!--",
    "\x1b[2J\x1b[31mred\x07 and \u202eright to left\u202c, \u2066isolated\u2069, zero\u200bwidth",
    "a" * 1_000_000,
    "{{constructor.constructor('window.broken = 4')()}} ${window.broken = 5}",
    '"]}</pre><iframe src="//example.invalid"></iframe>',
    "",
]


def with_steps(run: Path, weight: float = 0.5) -> dict[int, list[list]]:
    """Add to a made run a reward of one to three steps to each completion, of ten tokens or more,
    and one that no step has; for each step of the run the [end, reward] pairs of its
    completions."""
    random, told = np.random.default_rng(1), {}
    recipe = (run / "recipe.yaml").read_text(encoding="utf-8")
    added = f"  true_equations: {{weight: {weight}, steps: ', '}}\ngrpo:"
    (run / "recipe.yaml").write_text(recipe.replace("grpo:", added), encoding="utf-8")
    for file in (run / "completions").iterdir():
        frame = pd.read_parquet(file)
        ends = [
            sorted(random.choice(np.arange(1, n + 1), random.integers(1, 4), replace=False))
            for n in frame.tokens
        ]
        pairs = [[[int(end), float(random.integers(0, 5)) / 4] for end in each] for each in ends]
        pairs[0][0][1] = None
        paid = [[reward for _, reward in each if reward is not None] for each in pairs]
        mean = [np.mean(each) if each else None for each in paid]
        # trl writes what a reward logs beside it after the rewards, before the advantage.
        frame.insert(list(frame).index("gold"), "true_equations", mean)
        frame.insert(list(frame).index("advantage"), "steps", [json.dumps(each) for each in pairs])
        frame.to_parquet(file)
        told[int(frame["step"][0])] = pairs
    return told


def run(
    folder: Path, steps: int = 4, groups: int = 3, size: int = 8, hostile: bool = False, **grpo
) -> Path:
    """A finished run in `folder/grpo`, with its evaluation beside it; rewards are drawn from a
    seed."""
    path, random = folder / "grpo", np.random.default_rng(0)
    (path / "completions").mkdir(parents=True)
    settings = {"num_generations": size, "per_device_train_batch_size": groups * size}
    settings |= {"max_steps": steps, "max_completion_length": 40} | grpo
    lines = [f"  {key}: {json.dumps(value)}" for key, value in settings.items()]
    rewards = "rewards:\n  correct_answer: {weight: 1.0}\n  format_tags: {weight: 0.25}\n"
    (path / "recipe.yaml").write_text(
        f"seed: 1\n{rewards}grpo:\n" + "\n".join(lines) + "\n", encoding="utf-8"
    )
    (path / "versions.json").write_text(
        json.dumps({"hardware": ["a CPU"], "processes": 1}), encoding="utf-8"
    )
    logged = []
    for step in range(1, steps + 1):
        n = groups * size
        right, form = random.integers(0, 2, n).astype(float), random.integers(0, 5, n) / 4
        total = (right + 0.25 * form).reshape(groups, size)
        advantage = (total - total.mean(1, keepdims=True)) / (
            total.std(1, ddof=1, keepdims=True) + 1e-4
        )
        texts = [
            f"<think>{i}</think>\n<answer>{int(each)}</answer>" for i, each in enumerate(right)
        ]
        if hostile:
            texts[: len(HOSTILE)] = HOSTILE
        questions = [f"What is {step} + {i}?" for i in range(groups) for _ in range(size)]
        if hostile:
            questions[:size] = [HOSTILE[2]] * size
        frame = {
            "step": [step] * n,
            "prompt": [
                [{"role": "system", "content": "Think."}, {"role": "user", "content": q}]
                for q in questions
            ],
            "completion": [[{"role": "assistant", "content": text}] for text in texts],
            "correct_answer": right,
            "format_tags": form,
            "gold": ["1"] * n,
            "tokens": [10 + i % 7 for i in range(n)],
            "truncated": [i % 11 == 0 for i in range(n)],
            "advantage": advantage.ravel(),
        }
        pd.DataFrame(frame).to_parquet(path / "completions" / f"completions_{step:05d}.parquet")
        means = {
            "rewards/correct_answer/mean": right.mean(),
            "rewards/format_tags/mean": form.mean(),
        }
        line = {
            "reward": total.mean(),
            "reward_std": total.std(1, ddof=1).mean(),
            "groups_without_signal": 0.25,
            "entropy": 0.5,
            "step": step,
        } | means
        logged.append(
            line | {"completions/mean_length": 13.0, "seconds/sampling": 2.0, "seconds/update": 1.0}
        )
    logged.append({"eval_rewards/correct_answer/mean": 0.5, "eval_right": "0110", "step": steps})
    write_lines(path / "metrics.jsonl", logged)
    (path / "summary.json").write_text(
        json.dumps({"steps": steps, "seconds": 3.0}), encoding="utf-8"
    )
    evaluation(folder / "eval" / "held-out", hostile)
    return path


def warm_start(folder: Path) -> Path:
    """A finished warm start in `folder/sft`."""
    path = folder / "sft"
    path.mkdir(parents=True)
    (path / "recipe.yaml").write_text("seed: 1\nsft: {max_steps: 2}\n", encoding="utf-8")
    write_lines(
        path / "metrics.jsonl",
        [{"step": i, "entropy": 1.0, "loss": 2.0 / i, "mean_token_accuracy": 0.5} for i in (1, 2)],
    )
    (path / "summary.json").write_text(json.dumps({"steps": 2, "seconds": 1.0}), encoding="utf-8")
    return path


def evaluation(folder: Path, hostile: bool = False):
    """Answers of a base, a warm start and a policy to four questions: won, lost, wrong twice and
    right twice."""
    folder.mkdir(parents=True)
    right = {"base": "0000", "sft": "0101", "grpo": "1001"}
    for label, verdicts in right.items():
        lines = [
            {
                "problems": "x",
                "samples": 1,
                "temperature": 0.0,
                "max_new_tokens": 40,
                "strict": False,
            }
        ]
        for i, verdict in enumerate(verdicts):
            line = {"id": i, "sample": 0, "gold": "7", "truncated": False, "tokens": 5}
            line |= dict.fromkeys(("right", "strict", "lenient"), verdict == "1")
            line |= (
                {"answer": "7", "reason": "equal"}
                if verdict == "1"
                else {"answer": "8", "reason": "not equal"}
            )
            line["problem"] = f"Question {i}" + (HOSTILE[0] if hostile else "")
            line["response"] = HOSTILE[2] if hostile else f"{label} says {i}"
            lines.append(line)
        write_lines(folder / f"{label}.jsonl", lines)


def explained(run: Path, step: int, row: int):
    """What `make explain` writes, of four tokens whose third is clipped."""
    columns = {"new": [-0.1, -0.2, -0.3, -0.4], "old": [-0.1, -0.2, -0.7055, -0.4]}
    columns |= {"reference": [-0.1, -0.2, -1.0, -0.4]}
    columns |= {
        "entropy": [0.1, 0.2, 0.3, 0.4],
        "ratio": [1.0, 1.0, 1.5, 1.0],
        "kl": [0.0, 0.0, 0.3, 0.0],
    }
    columns |= {"unclipped": [-0.8, -0.8, -1.2, -0.8], "clipped": [-0.8, -0.8, -0.96, -0.8]}
    columns |= {"loss": [0.8, 0.8, 1.212, 0.8], "stopped": [0.0] * 4, "advantages": [-0.8] * 4}
    settings = {
        "loss_type": "grpo",
        "importance_sampling_level": "token",
        "epsilon": 0.2,
        "epsilon_high": 0.2,
    }
    found = {
        "step": step,
        "row": row,
        "question": "What is 1 + 1?",
        "advantage": -0.8,
        "policies": {
            "old": "the warm start",
            "new": "the run's result",
            "reference": "the warm start",
        },
        "settings": (
            settings | {"beta": 0.04, "use_bias_correction_kl": False, "max_completion_length": 40}
        ),
        "weight": 0.01,
        "notes": [],
        "tokens": ["a", HOSTILE[1], "c", HOSTILE[3]],
        **columns,
    }
    (run / "explain").mkdir(exist_ok=True)
    (run / "explain" / f"{step}-{row}.json").write_text(json.dumps(found), encoding="utf-8")
