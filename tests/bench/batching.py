"""What answering in batches gains over one problem at a time: the same model, problems and greedy answers.

    python -m tests.bench.batching recipes/smollm2-arithmetic.yaml --n 64 --pairs 3

Prints the ratio of the two times and how many answers are the same.
"""

import argparse
import statistics
import time

from data import prompt
from evaluation.engines import Engine, engine
from schema.launch import recipe_arguments
from schema.problem_sets import train_and_held_out
from schema.recipe import load_recipe
from training.model import load_tokenizer


def compare(policy: Engine, prompts: list[list[int]], size: int, pairs: int) -> list[float]:
    """Time of one at a time over time in batches, pair by pair."""
    policy(prompts[:2], 0)
    ratios = []
    for _ in range(pairs):
        began = time.perf_counter()
        together = [each for i in range(0, len(prompts), size) for each in policy(prompts[i : i + size], 0)]
        between = time.perf_counter()
        alone = [each for ids in prompts for each in policy([ids], 0)]
        ratios.append((time.perf_counter() - between) / (between - began))
        same = sum(a == b for a, b in zip(together, alone, strict=True))
        print(f"batches of {size}: {ratios[-1]:.2f} times as fast; {same} of {len(prompts)} answers equal", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_intermixed_args()
    recipe = load_recipe(options.recipe, options.overrides)
    tokenizer = load_tokenizer(recipe)
    rows = train_and_held_out(recipe)[1][: options.n]
    prompts = [prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], recipe.prompt.system)) for row in rows]
    prompts.sort(key=len)
    done = recipe.stage_dir("sft") if (recipe.stage_dir("sft") / "summary.json").is_file() else None
    with engine(recipe, tokenizer, [done], max(map(len, prompts))) as [policy]:
        ratios = compare(policy, prompts, recipe.evaluate.batch_size, options.pairs)
    print(f"median {statistics.median(ratios):.2f} of {len(ratios)} pairs; {done or 'the base model'}, {recipe.name}")


if __name__ == "__main__":
    main()
