"""What share of what the passes of a GRPO update read (old policy, reference, loss) is padding, in
trl and here? By the lengths of the data's own prompts and solutions.

    MATH_DATA_DIR=folder python -m tests.bench.padding recipes/qwen-math-lora.yaml [section.key=…]

trl pads a row to the longest prompt and completion of all that were sampled together, we to those
of its micro-batch: before the loss a group, in the loss rows of several. Answers to one problem are
as long as its worked solution, or each as long as some problem's: real ones lie between.
"""

import argparse
from random import Random

from data import prompt
from schema.recipe import load_recipe
from stages.cli import recipe_arguments
from training.model import load_tokenizer
from training.problem_sets import load_train

BATCHES = 50


def padded(rows: list[tuple[int, int]], size: int) -> int:
    """The numbers that are read of (prompt, completion) lengths in micro-batches of a size."""
    total = 0
    for start in range(0, len(rows), size):
        prompts, completions = zip(*rows[start : start + size], strict=True)
        total += len(prompts) * (max(prompts) + max(completions))
    return total


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe_arguments(parser)
    options = parser.parse_intermixed_args()
    recipe = load_recipe(options.recipe, options.overrides)
    tokenizer = load_tokenizer(recipe)
    settings = recipe.settings["grpo"]
    batch, group = recipe.settings.generation.completions, settings["num_generations"]
    size, limit = settings["per_device_train_batch_size"], settings["max_completion_length"]
    lengths = []
    draw = Random(0)
    for row in draw.sample(load_train(recipe)[0], 2000):
        question = prompt.question_ids(tokenizer, row["problem"], recipe.prompt.system)
        solution = prompt.completion(row["reasoning"], row["solution"], opened=False)
        tokens = tokenizer(solution, add_special_tokens=False)["input_ids"]
        lengths.append((len(question), min(limit, len(tokens) + 1)))
    print("| answers to a problem | trl, each pass | here: before the loss | in the loss |")
    print("| --- | ---: | ---: | ---: |")
    for name in ("equally long", "of any length"):
        read = [0, 0, 0, 0]
        for _ in range(BATCHES):
            rows = [row for row in draw.sample(lengths, batch // group) for _ in range(group)]
            if name == "of any length":
                rows = [(row[0], draw.choice(lengths)[1]) for row in rows]
            shuffled = draw.sample(rows, batch)
            counts = (sum(map(sum, rows)), padded(rows, batch), padded(rows, size))
            read = [a + b for a, b in zip(read, (*counts, padded(shuffled, size)), strict=True)]
        shares = [f"{1 - read[0] / count:.0%}" for count in read[1:]]
        print(f"| {name} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
