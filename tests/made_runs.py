"""Run folders for tests: every file as a real run writes it, with texts that try to break out."""

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
TABLE = "completions/completions_{:05d}.parquet"  # of a step


def write_json(file: Path, value: object):
    file.write_text(json.dumps(value), encoding="utf-8")


def change_json(file: Path, **keys: object):
    """Set keys of a file's object; of an empty one where there is no file."""
    write_json(file, (json.loads(file.read_text()) if file.is_file() else {}) | keys)


def change_table(run: Path, step: int, change) -> None:
    """Write a step's completions again, as `change` returns them, or changes them in place."""
    file = run / TABLE.format(step)
    frame = pd.read_parquet(file)
    changed = change(frame)
    (frame if changed is None else changed).to_parquet(file)


def replace_text(file: Path, old: str, new: str):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def with_steps(run: Path, weight: float = 0.5) -> dict[int, list[list]]:
    """Add to a made run a reward of one to three steps to each completion, of ten tokens or more,
    and one that no step has; for each step of the run the [end, reward] pairs of its
    completions."""
    random = np.random.default_rng(1)
    added = f"  true_equations: {{weight: {weight}, steps: ', '}}\ngrpo:"
    replace_text(run / "recipe.yaml", "grpo:", added)
    pairs_by_step = {}

    def add_steps(frame: pd.DataFrame):
        pairs, means = [], []
        for tokens in frame.tokens:
            ends = random.choice(np.arange(1, tokens + 1), random.integers(1, 4), replace=False)
            pairs.append([[int(end), float(random.integers(0, 5)) / 4] for end in sorted(ends)])
        pairs[0][0][1] = None
        for steps in pairs:
            rewards = [reward for _, reward in steps if reward is not None]
            means.append(np.mean(rewards) if rewards else None)
        # trl writes what a reward logs beside it after the rewards, before the advantage.
        frame.insert(list(frame).index("gold"), "true_equations", means)
        frame.insert(list(frame).index("advantage"), "steps", [json.dumps(row) for row in pairs])
        pairs_by_step[int(frame["step"][0])] = pairs

    for file in (run / "completions").iterdir():
        change_table(run, int(file.stem[-5:]), add_steps)
    return pairs_by_step


def chat(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def run(
    folder: Path, steps: int = 4, groups: int = 3, size: int = 8, hostile: bool = False, **grpo
) -> Path:
    """A finished run in `folder/grpo`, with its evaluation beside it; rewards are drawn from a
    seed."""
    path, random = folder / "grpo", np.random.default_rng(0)
    (path / "completions").mkdir(parents=True)
    batch = groups * size
    settings = {"num_generations": size, "per_device_train_batch_size": batch}
    settings |= {"max_steps": steps, "max_completion_length": 40} | grpo
    recipe = ["seed: 1", "rewards:", "  correct_answer: {weight: 1.0}"]
    recipe += ["  format_tags: {weight: 0.25}", "grpo:"]
    recipe += [f"  {key}: {json.dumps(value)}" for key, value in settings.items()]
    (path / "recipe.yaml").write_text("\n".join(recipe) + "\n", encoding="utf-8")
    write_json(path / "versions.json", {"hardware": ["a CPU"], "processes": 1})
    logged = []
    for step in range(1, steps + 1):
        correct, form = random.integers(0, 2, batch).astype(float), random.integers(0, 5, batch) / 4
        total = (correct + 0.25 * form).reshape(groups, size)
        deviation = total.std(1, ddof=1, keepdims=True)
        advantage = (total - total.mean(1, keepdims=True)) / (deviation + 1e-4)
        texts = [f"<think>{i}</think>\n<answer>{int(x)}</answer>" for i, x in enumerate(correct)]
        questions = [f"What is {step} + {i}?" for i in range(groups) for _ in range(size)]
        if hostile:
            texts[: len(HOSTILE)] = HOSTILE
            questions[:size] = [HOSTILE[2]] * size
        columns = {
            "step": [step] * batch,
            "prompt": [[chat("system", "Think."), chat("user", text)] for text in questions],
            "completion": [[chat("assistant", text)] for text in texts],
            "correct_answer": correct,
            "format_tags": form,
            "gold": ["1"] * batch,
            "tokens": [10 + i % 7 for i in range(batch)],
            "truncated": [i % 11 == 0 for i in range(batch)],
            "advantage": advantage.ravel(),
        }
        pd.DataFrame(columns).to_parquet(path / TABLE.format(step))
        line = {"reward": total.mean(), "reward_std": deviation.mean()}
        line |= {"zero_variance_groups": 0.25, "entropy": 0.5, "step": step}
        line |= {"rewards/correct_answer/mean": correct.mean()}
        line |= {"rewards/format_tags/mean": form.mean(), "completions/mean_length": 13.0}
        logged.append(line | {"seconds/sampling": 2.0, "seconds/update": 1.0})
    logged.append({"eval_rewards/correct_answer/mean": 0.5, "eval_correct": "0110", "step": steps})
    write_lines(path / "metrics.jsonl", logged)
    write_json(path / "summary.json", {"steps": steps, "seconds": 3.0})
    evaluation(folder / "eval" / "validation", hostile)
    return path


def same_questions(run: Path, correct: dict[int, int]):
    """What evaluations sampled of two validation questions; by step, how often the first was
    answered correct. The other never was."""
    (run / "same_questions").mkdir()
    for step, count in correct.items():
        frame = pd.read_parquet(run / TABLE.format(1))[:16].assign(step=step)
        frame["prompt"] = [[chat("user", f"Held out {i // 8}?")] for i in range(16)]
        frame["completion"] = [[chat("assistant", f"says {i < count}")] for i in range(16)]
        frame["correct_answer"] = [1.0] * count + [0.0] * (16 - count)
        frame.to_parquet(run / f"same_questions/completions_{step:05d}.parquet")


def warm_start(folder: Path) -> Path:
    """A finished warm start in `folder/sft`."""
    path = folder / "sft"
    path.mkdir(parents=True)
    (path / "recipe.yaml").write_text("seed: 1\nsft: {max_steps: 2}\n", encoding="utf-8")
    rows = [{"step": i, "entropy": 1, "loss": 2 / i, "mean_token_accuracy": 0.5} for i in (1, 2)]
    write_lines(path / "metrics.jsonl", rows)
    write_json(path / "summary.json", {"steps": 2, "seconds": 1.0})
    return path


def evaluation(folder: Path, hostile: bool = False):
    """Answers of a base, a warm start and a policy to four questions: won, lost, incorrect twice
    and correct twice."""
    folder.mkdir(parents=True)
    settings = {"problems": "x", "samples": 1, "temperature": 0.0, "max_new_tokens": 40}
    for label, verdicts in {"base": "0000", "sft": "0101", "grpo": "1001"}.items():
        lines = [settings | {"strict": False}]
        for i, verdict in enumerate(verdicts):
            correct = verdict == "1"
            line = {"id": i, "sample": 0, "gold": "7", "truncated": False, "tokens": 5}
            line |= dict.fromkeys(("correct", "strict", "lenient"), correct)
            line |= {"answer": "78"[not correct], "reason": "equal" if correct else "not equal"}
            line["problem"] = f"Question {i}" + (HOSTILE[0] if hostile else "")
            line["completion"] = HOSTILE[2] if hostile else f"{label} says {i}"
            lines.append(line)
        write_lines(folder / f"{label}.jsonl", lines)
