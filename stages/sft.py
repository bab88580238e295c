"""SFT warm start: the policy learns the form of an answer from worked solutions, before GRPO
rewards it.

They are the data's, or with `data.own_solutions` the base model's: see evaluation/own_solutions.py.

Left out on purpose: packing (rows are short), loss on the prompt, and a choice of checkpoint,
because the warm start is a place to begin from, not a result.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from console.faults import Fault, RecipeError, said_by_library
from console.terminal import is_main_process, say
from data import prompt
from schema import configs
from schema.names import tools_of
from schema.recipe import Recipe
from stages.cli import run
from stages.frame import Start, Trained, Training, train_stage
from training.run_folder import sealed, take_over

if TYPE_CHECKING:
    from datasets import Dataset


def main(recipe: Recipe, if_needed: bool = False):
    """Train the SFT warm start of a recipe."""
    if recipe.sft is not None:
        train_stage("sft", recipe, warm_start)
    elif not if_needed:
        raise RecipeError(
            [Fault(recipe.place(), "it has no `sft` section: there is no warm start to train")]
        )


def warm_start(start: Start) -> Iterator[Training | Trained]:
    from accelerate.utils import broadcast_object_list
    from trl import SFTTrainer

    from evaluation import own_solutions
    from training.model import load_model
    from training.train import keep_adapter_float32

    recipe, tokenizer, own = start.recipe, start.tokenizer, None
    solved = start.rows[: recipe.data.worked]
    if recipe.data.own_solutions is not None:
        own = own_solutions.learned(recipe, own_solutions.asked(recipe, tokenizer, start.rows))
        solved = own.rows
    sampled = [
        [each[key] for key in ("problem", "reasoning", "answer")]
        for each in (own.rows if own else [])
    ]
    taken = [take_over(start.folder, recipe, start.rows, sampled) if is_main_process() else None]
    if taken := broadcast_object_list(taken)[0]:  # the other processes wait for it here
        say(f"sft: the same warm start is finished in {taken}; taken from there")
        return
    dataset = tokenised(
        solved, tokenizer, recipe.prompt.system, start.args.max_length, tools_of(recipe)
    )
    if not dataset:
        raise RecipeError(
            [
                Fault(
                    recipe.place("sft", "max_length"),
                    "sft: no worked solution fits into max_length",
                )
            ]
        )
    model = load_model(recipe, tokenizer)
    with said_by_library(recipe.place("sft")):
        trainer = SFTTrainer(
            model=model,
            args=start.args,
            train_dataset=dataset,
            processing_class=tokenizer,
            peft_config=configs.adapter_config(recipe),
        )
    if recipe.quantization is not None:
        keep_adapter_float32(trainer)
    yield Training(
        trainer, f"{len(dataset):,} {'own' if own else 'worked'} solutions", start.rows, sampled
    )
    yield Trained(
        {
            "own_solutions": own and own.figures,
            **(sealed(start.folder.path) if is_main_process() else {}),
        }
    )


def tokenised(
    rows: list[dict], tokenizer, system: str | None, max_length: int | None, tools=None
) -> "Dataset":
    """`input_ids` and `completion_mask` of every row that has a worked solution and fits into
    `max_length` tokens. Its calls of `tools` are answered, and the answers are not learned.

    Tokenised here, not by the trainer: the prompt's ids are then the same in GRPO and the
    evaluation, and a chat template that rewrites past turns (or drops their thoughts) has no say in
    what is learned.
    """
    from datasets import Dataset

    from training.tools import worked

    opened = prompt.think_opened(tokenizer)
    examples, without, too_long = [], 0, 0
    for row in rows:
        if not row["reasoning"]:
            without += 1
            continue
        prefix = prompt.question_ids(tokenizer, row["problem"], system)
        text = prompt.completion(row["reasoning"], row.get("answer") or row["solution"], opened)
        completion, learned = worked(tokenizer, tools or {}, text)
        if max_length and len(prefix) + len(completion) > max_length:
            too_long += 1
            continue
        mask = [0] * len(prefix) + learned
        examples.append({"input_ids": prefix + completion, "completion_mask": mask})
    if without or too_long:
        longer = f" and {too_long:,} with more than {max_length} tokens" if too_long else ""
        say(f"sft: left out {without:,} rows without a worked solution{longer}")
    return Dataset.from_list(examples)


if __name__ == "__main__":
    run(
        "sft",
        main,
        {
            "--if-needed": {
                "action": "store_true",
                "help": "do nothing if the recipe has no sft section",
            }
        },
    )
