"""Records what the lab's first widget plays, the completions of one run to the same questions at
steps 0, 40 … 240, into docs/lab/index.html:

python -m tests.bench.evolving outputs/tiny-arithmetic

of a finished `make grpo`. An evaluation writes those of its step; those of step 0 are sampled here,
from the warm start that the run began with.
"""

import argparse
import tempfile
from pathlib import Path

from runs.records import SAME_QUESTIONS, completion_files
from runs.state import RunState
from schema.recipe import load_recipe
from tests.support import trainer_of
from viewer import lab
from viewer.page import json_text

PAGE = Path("docs/lab/index.html")


def before_training(run: Path, folder: str) -> list[Path]:
    """The file of what the warm start answers, written into a folder."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [f"output_dir={folder}"])
    trainer = trainer_of(recipe, validates=True, warm_start=run / "sft")
    trainer.sample_same_questions()
    return completion_files(Path(trainer.args.output_dir), (SAME_QUESTIONS,))


def main(run: Path):
    grpo = run / "grpo"
    with tempfile.TemporaryDirectory() as folder:
        files = before_training(run, folder) + completion_files(grpo, (SAME_QUESTIONS,))
        data = lab.groups_of_run(RunState.read(grpo), files)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(lab.with_run(page, json_text(data)), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.evolving", description=__doc__)
    parser.add_argument("run", type=Path)
    main(**vars(parser.parse_args()))
