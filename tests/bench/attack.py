"""Sixty rewards with a hole: how many does the list of hacks find, how many the learner of `make
attack`, and what does it try over time?

    OMP_NUM_THREADS=1 python -m tests.bench.attack run outputs/attack.jsonl
    python -m tests.bench.attack table outputs/attack.jsonl
    python -m tests.bench.attack picture docs/img/attack.png
    python -m tests.bench.attack record tests/bench/attack.json

Some five minutes on a quiet core; a line that is there is kept. `even`: the learner with a rate of
0, which only tries edits at random, with as many rounds.
"""

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from evaluation.attack import NAMES, RATE, Scorer, attack
from evaluation.audit import score_completions, with_incorrect_answers
from evaluation.golds import by_gradability
from runs.files import read_lines
from schema.recipe import load_recipe
from tests.evaluation.test_attack import WEAK, sound, weak
from training.problem_sets import train_and_validation

FOLDER = "tests.evaluation."
RECIPE = "recipes/tiny-arithmetic.yaml"
SHOWN = "question_numbers"  # in the picture
ROUNDS = 60
OTHERS = {
    "trl's cosine": "trl.rewards.get_cosine_scaled_reward: {max_len: 512}",
    "trl's accuracy": "trl.rewards.accuracy_reward: {}",
    "true_equations": "true_equations: {}",
    "partial_credit": "partial_credit: {}",  # pays the gold twice, `86, 86`
}


def fifty_problems() -> list[dict]:
    recipe = load_recipe(RECIPE)
    train, _ = train_and_validation(recipe)
    return by_gradability(random.Random(0).sample(train, 50), recipe)[0]


def scorer_of(reward: str, rows: list[dict]) -> Scorer:
    recipe = load_recipe(RECIPE, [f"rewards={{{reward}}}"])
    return Scorer(recipe, with_incorrect_answers(rows), rows)


def measured(reward: str, rows: list[dict]) -> dict:
    """Whether list, learner and an even policy find a text that a reward overpays."""
    recipe = load_recipe(RECIPE, [f"rewards={{{reward}}}"])
    table = score_completions(with_incorrect_answers(rows[:20]), rows[:20], recipe)
    line = {"list": [pay.name for pay in table if pay.kind == "hack" and pay.more]}
    for name, rate in (("learner", RATE), ("even", 0.0)):
        started, processor = time.monotonic(), time.process_time()
        attacks, history = attack(scorer_of(reward, rows), 120, after=0, rate=rate)
        line[name] = {
            "attacks": len(attacks),
            "rounds": len(history),
            "seconds": round(time.monotonic() - started, 1),
            "processor": round(time.process_time() - processor, 1),
            "shortest": [attacks[0].text[:200], *attacks[0].edits] if attacks else None,
        }
        if len(history) == 1:  # before any update
            line["even"] = line["learner"]
            break
    return line


def run(file: Path):
    rows = fifty_problems()
    written = {line["name"] for line in read_lines(file)} if file.is_file() else set()
    for kind, rewards in (("weak", weak(FOLDER)), ("sound", sound(FOLDER)), ("other", OTHERS)):
        for name, reward in rewards.items():
            if name not in written:
                line = {"name": name, "kind": kind, "blind": name in WEAK} | measured(reward, rows)
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def table(file: Path):
    """Print the counts, and a line for each reward."""
    lines = list(read_lines(file))
    for kind, is_blind in (("weak", True), ("weak", False), ("sound", False), ("other", False)):
        part = [line for line in lines if (line["kind"], line["blind"]) == (kind, is_blind)]
        counts = [sum(bool(line["list"]) for line in part)]
        counts += [sum(line[name]["attacks"] > 0 for line in part) for name in ("learner", "even")]
        slowest = max((line["learner"]["seconds"] for line in part), default=0)
        print(f"{kind} {is_blind}: {len(part)}; list, learner, even: {counts}; {slowest} s at most")
        for line in part:
            learner = line["learner"]
            found = f"{learner['attacks']:3} {line['even']['attacks']:3}"
            print(f"  {len(line['list']):2} {found} {line['name']:45} {learner['shortest']}")


def tried(rate: float) -> tuple[Scorer, list[dict]]:
    scorer = scorer_of(weak(FOLDER)[SHOWN], fifty_problems())
    return scorer, attack(scorer, 600, rounds=ROUNDS, after=ROUNDS, rate=rate)[1]


def picture(file: Path):
    """What the learner tried over its rounds, beside an even policy."""
    _, learned = tried(RATE)
    _, even = tried(0.0)
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for label, history in (("learner", learned), ("even policy", even)):
        left.plot([100 * line["attacks"] for line in history], label=label)
    left.set(title="drafts that are attacks", xlabel="round (400 drafts)", ylabel="%")
    left.legend(frameon=False)
    chances = np.array([line["chances"][1:].mean(axis=0) for line in learned])
    for edit in np.argsort(-chances[-1], kind="stable")[:6]:
        if edit:
            right.plot(100 * chances[:, edit], label=NAMES[edit])
    right.set(title="chance of an edit", xlabel="round", ylabel="% of all edits")
    right.legend(frameon=False, fontsize=7)
    figure.savefig(file, dpi=100)


def record(file: Path):
    """Write a small record of an attack, for a page that shows it."""
    scorer, history = tried(RATE)
    rounds = []
    for number in range(0, ROUNDS, 4):
        line = history[number]
        chances = line["chances"][1:].mean(axis=0)
        best = [edit for edit in np.argsort(-chances, kind="stable")[:6] if edit]
        rounds.append(
            {
                "round": number + 1,
                "attacks": round(float(line["attacks"]), 4),
                "excess": round(float(line["excess"]), 4),
                "text": line["best"][:300],
                "likeliest": {NAMES[edit]: round(float(chances[edit]), 4) for edit in best},
            }
        )
    honest = float(scorer.honest.mean())
    recorded = {"reward": SHOWN, "honest incorrect answer": honest, "rounds": rounds}
    file.write_text(json.dumps(recorded, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "table", "picture", "record"])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    globals()[arguments.what](arguments.file)
