"""What answering in batches gains over one problem at a time: the same model, problems and greedy answers.

    python -m tests.bench.batching recipes/smollm2-arithmetic.yaml --n 64 --pairs 3

Prints the ratio of the two times and how many answers are the same.
"""

import argparse

from data import prompt
from stages.engines import engine
from stages.model import load_tokenizer
from stages.problems import split
from stages.recipe import load_recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    recipe = load_recipe(options.recipe, options.overrides)
    tokenizer = load_tokenizer(recipe)
    rows = split(recipe)[1][: options.n]
    prompts = [prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], recipe.prompt.system)) for row in rows]
    prompts.sort(key=len)
    done = recipe.stage_dir("sft") if (recipe.stage_dir("sft") / "summary.json").is_file() else None
    with engine(recipe, tokenizer, done, max(map(len, prompts))) as policy:
        ratios = compare(policy, prompts, recipe.evaluate.batch_size, options.pairs)
    return ratios


if __name__ == "__main__":
    main()
