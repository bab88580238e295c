"""Keeps which validation problems each seed of a recipe answered correctly, from which a test
recomputes the published gains. Add after a `make seeds`:

python -m tests.bench.outcomes outputs/tiny-arithmetic/seed-1 … >> docs/study/outcomes.jsonl

A line has the recipe, its commit, machine and date, the seed, the stage and, for each problem by
its number, 1 where the completion is correct.
"""

import argparse
import json
from pathlib import Path

from evaluation.compare_runs import validation_completions
from runs.state import RunState


def lines_of(folder: Path) -> list[dict]:
    """A line for each stage of a run.

    Raises:
        ValueError: the run was not evaluated.
    """
    run = RunState.read(folder)
    models = validation_completions(run)
    if isinstance(models, str):
        raise ValueError(f"{folder}: {models}")
    lines = []
    for stage, answered in models.items():
        numbers = sorted(answered.problems)
        if numbers != list(range(len(numbers))):
            raise ValueError(f"{folder}: {stage} did not answer every problem")
        correct = "".join(str(int(share == 1)) for share in answered.shares("correct", numbers))
        line = {"recipe": folder.parent.parent.name, "seed": run.recipe["seed"], "stage": stage}
        line |= {"problems": "validation", "commit": run.versions["commit"][:8]}
        line |= {"machine": run.versions["hardware"][0], "correct": correct}
        lines.append(line)
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seeds", type=Path, nargs="+")
    for folder in parser.parse_args().seeds:
        stage = "grpo" if (folder / "grpo").is_dir() else "sft"
        for line in lines_of(folder / stage):
            print(json.dumps(line))


if __name__ == "__main__":
    main()
