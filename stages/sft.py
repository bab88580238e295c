"""SFT warm start: the policy learns the format from worked solutions, before GRPO
rewards it.

They are the data's, or with `data.rejection_sampling` the base model's: see evaluation/sample.py.

Left out on purpose: packing (rows are short), loss on the prompt, and a choice of checkpoint,
because the warm start is a place to begin from, not a result.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from console.faults import Fault, RecipeError, said_by_library
from console.terminal import say
from data import prompt
from schema.names import tools_of
from schema.recipe import Recipe
from schema.settings import adapter_config
from stages.frame import Start, Trained, Training, conclude, train_stage

if TYPE_CHECKING:
    from datasets import Dataset


def main(recipe: Recipe, if_needed: bool = False) -> dict[str, Any]:
    """Train the SFT warm start of a recipe. Return the run's summary, which is empty if the recipe
    has no warm start."""
    if recipe.sft is not None:
        return conclude(train_stage("sft", recipe, train_on_solutions), recipe)
    if if_needed:
        return {}
    message = "it has no `sft` section: there is no warm start to train"
    raise RecipeError([Fault(recipe.place(), message)])


def train_on_solutions(start: Start) -> Iterator[Training | Trained]:
    from trl import SFTTrainer

    from evaluation import sample
    from training.cpu import speed_up_adapter
    from training.model import load_model
    from training.train import keep_adapter_float32

    recipe = start.recipe
    tokenizer = start.tokenizer
    solutions = start.rows[: recipe.data.worked]
    sampled = []
    figures = None
    if recipe.data.rejection_sampling is not None:
        answers = sample.completions_to_learn_from(recipe, tokenizer, start.rows)
        solutions, figures = sample.solutions_to_learn(recipe, answers)
        sampled = [[row["problem"], row["reasoning"], row["answer"]] for row in solutions]
    max_length = start.args.max_length
    dataset = tokenised(solutions, tokenizer, recipe.prompt.system, max_length, tools_of(recipe))
    if not dataset:
        message = "sft: no worked solution fits into max_length"
        raise RecipeError([Fault(recipe.place("sft", "max_length"), message)])
    model = load_model(recipe, tokenizer)
    with said_by_library(recipe.place("sft")):
        trainer = SFTTrainer(
            model=model,
            args=start.args,
            train_dataset=dataset,
            processing_class=tokenizer,
            peft_config=adapter_config(recipe),
        )
    if recipe.quantization is not None:
        keep_adapter_float32(trainer)
    speed_up_adapter(trainer.model)
    kind = "worked" if recipe.data.rejection_sampling is None else "own"
    yield Training(trainer, f"{len(dataset):,} {kind} solutions", start.rows, sampled)
    yield Trained({"rejection_sampling": figures})


def tokenised(
    rows: list[dict], tokenizer, system: str | None, max_length: int | None, tools=None
) -> "Dataset":
    """`input_ids` and `completion_mask` of every row that has a worked solution and fits into
    `max_length` tokens. The solution's calls of `tools` are answered, and the mask leaves the
    answers out of the loss.

    We tokenise the rows, not the trainer. The prompt's ids are then the same as in GRPO and the
    evaluation, and a chat template that rewrites past turns (or drops their thoughts) cannot change
    what is learned.
    """
    from datasets import Dataset

    from training.tools import tokenise_solution

    opened = prompt.think_opened(tokenizer)
    examples = []
    without = 0
    too_long = 0
    for row in rows:
        if not row["reasoning"]:
            without += 1
            continue
        prefix = prompt.question_ids(tokenizer, row, system)
        text = prompt.completion(row["reasoning"], row.get("answer") or row["solution"], opened)
        completion, completion_mask = tokenise_solution(tokenizer, tools or {}, text)
        if max_length and len(prefix) + len(completion) > max_length:
            too_long += 1
            continue
        mask = [0] * len(prefix) + completion_mask
        examples.append({"input_ids": prefix + completion, "completion_mask": mask})
    if without or too_long:
        longer = f" and {too_long:,} with more than {max_length} tokens" if too_long else ""
        say(f"sft: left out {without:,} rows without a worked solution{longer}")
    return Dataset.from_list(examples)
