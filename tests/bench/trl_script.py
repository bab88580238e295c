"""Our GRPO stage against trl's own script on the same configuration: same seed, same steps, same
rewards.

    python -m tests.bench.trl_script --pairs 5

Prints the ratio of wall times (ours to trl's; whole processes, alternating order, median over
pairs) and whether the final weights are equal to the bit.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from datasets import Dataset
from ruamel.yaml import YAML
from safetensors.torch import load_file

from schema.configs import training_arguments
from schema.recipe import load_recipe
from training.model import load_tokenizer
from training.problem_sets import load_train
from training.rows import prompt_dataset

RECIPE = "recipes/tiny-arithmetic.yaml"


def main(pairs: int, steps: int):
    root = Path(tempfile.mkdtemp())
    overrides = [f"output_dir={root}/ours", f"grpo.max_steps={steps}"]
    run("stages.sft", RECIPE, *overrides)
    config = trl_config(root, overrides)
    commands = {
        "ours": ("stages.grpo", RECIPE, *overrides),
        "trl": ("trl.scripts.grpo", "--config", str(config)),
    }
    ratios = []
    for pair in range(pairs):
        seconds = {}
        for name in sorted(commands, reverse=bool(pair % 2)):
            shutil.rmtree(root / ("ours/grpo" if name == "ours" else "trl"), ignore_errors=True)
            began = time.monotonic()
            run(*commands[name])
            seconds[name] = time.monotonic() - began
        ratios.append(seconds["ours"] / seconds["trl"])
        print(
            f"pair {pair + 1}: ours {seconds['ours']:.1f} s, trl {seconds['trl']:.1f} s,"
            f" {ratios[-1]:.3f}",
            flush=True,
        )
    ours, trl = (
        load_file(folder / "model.safetensors") for folder in (root / "ours/grpo", root / "trl")
    )
    equal = ours.keys() == trl.keys() and all((ours[name] == trl[name]).all() for name in ours)
    print(
        f"median ratio {statistics.median(ratios):.3f} over {pairs} pairs; final weights bit-equal:"
        f" {bool(equal)}"
    )


def trl_config(root: Path, overrides: list[str]) -> Path:
    """The recipe's GRPO stage, spelled for trl's script: its configuration file and its data
    set."""
    recipe = load_recipe(RECIPE, overrides)
    rows, _ = load_train(recipe)
    dataset: Dataset = prompt_dataset(rows, load_tokenizer(recipe), recipe.prompt.system)
    (root / "data").mkdir()
    dataset.to_parquet(root / "data" / "train.parquet")
    arguments = {
        "model_name_or_path": str(recipe.stage_dir("sft")),
        "dtype": recipe.model.dtype,
        "dataset_name": str(root / "data"),
        "reward_funcs": [f"rewards.{name}" for name in recipe.rewards],
        **training_arguments(recipe, "grpo"),
        "output_dir": str(root / "trl"),
    }
    file = root / "trl.yaml"
    with file.open("w") as stream:
        YAML().dump(arguments, stream)
    return file


def run(*command: str):
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    main(**vars(parser.parse_args()))
