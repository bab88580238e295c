"""How much of a GRPO update's arithmetic is padding? By the lengths of the data's own prompts and
worked solutions, for a recipe's batch.

    MATH_DATA_DIR=folder python -m tests.bench.padding recipes/qwen-math-lora.yaml [section.key=…]

With vLLM and a KL, trl passes the batch three times through the model: for the log-probabilities of
the policy that sampled, for the reference's, and for the loss. The first two see every row as long
as the longest prompt and the longest completion of all that were sampled together; the loss, which
mixes rows of different prompts, leaves out the columns in which none of its completions has a token
(training/overrides.py, without_padding). A group's completions are as long as its problem's worked
solution, or each as long as some problem's: real ones lie between.
"""

import argparse
from random import Random

from data import prompt
from schema import configs
from schema.recipe import load_recipe
from stages.cli import recipe_arguments
from training.model import load_tokenizer
from training.problem_sets import load_train

BATCHES = 50


def shares(prompts: list[int], completions: list[int], micro_batch: int, draw: Random):
    """(share of padding in the pass of the old policy or the reference, in that of the loss) for
    the tokens of the prompt and the completion of each row."""
    tokens = sum(prompts) + sum(completions)
    longest_prompt = max(prompts)
    passed = len(prompts) * (longest_prompt + max(completions))
    shuffled = list(completions)
    draw.shuffle(shuffled)
    learned = 0
    for start in range(0, len(shuffled), micro_batch):
        rows = shuffled[start : start + micro_batch]
        learned += len(rows) * (longest_prompt + max(rows))
    return 1 - tokens / passed, 1 - tokens / learned


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe_arguments(parser)
    options = parser.parse_intermixed_args()
    recipe = load_recipe(options.recipe, options.overrides, check=())
    tokenizer = load_tokenizer(recipe)
    limit = configs.setting(recipe, "grpo", "max_completion_length")
    lengths = []
    for row in Random(0).sample(load_train(recipe)[0], 2000):
        question = prompt.question_ids(tokenizer, row["problem"], recipe.prompt.system)
        solution = prompt.completion(row["reasoning"], row["solution"], opened=False)
        completion = tokenizer(solution, add_special_tokens=False)["input_ids"]
        lengths.append((len(question), min(limit, len(completion) + 1)))
    batch = configs.generation(recipe.grpo).completions
    group = configs.setting(recipe, "grpo", "num_generations")
    size = configs.setting(recipe, "grpo", "per_device_train_batch_size")
    print("| completions of a group | old policy, reference | loss | all three |")
    print("| --- | ---: | ---: | ---: |")
    for name, are_alike in (("equally long", True), ("of any length", False)):
        draw = Random(0)
        totals = [0.0, 0.0]
        for _ in range(BATCHES):
            rows = [row for row in draw.sample(lengths, batch // group) for _ in range(group)]
            prompts = [row[0] for row in rows]
            completions = [row[1] for row in rows]
            if not are_alike:
                completions = [row[1] for row in draw.choices(lengths, k=batch)]
            for i, share in enumerate(shares(prompts, completions, size, draw)):
                totals[i] += share / BATCHES
        old, loss = totals
        print(f"| {name} | {old:.0%} | {loss:.0%} | |")


if __name__ == "__main__":
    main()
