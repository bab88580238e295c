"""On-policy distillation (Agarwal et al. 2023, arXiv:2306.13649): the policy samples a completion
of each problem, and learns at each of its tokens what a teacher would have written next. Loss and
sampling are trl's `DistillationTrainer`.

Left out on purpose: vLLM and `tools`, which were not tried, and a choice of checkpoint. No reward
is asked: whether a completion is correct is for the evaluation to say.
"""

from collections.abc import Iterator
from typing import Any

from data.problems import weighted
from schema.recipe import Recipe
from stages.frame import Start, Trained, Training, conclude, train_stage


def main(recipe: Recipe) -> dict[str, Any]:
    """Train a recipe's policy on its teacher's probabilities, from its warm start where it has one.
    Return the run's summary."""
    return conclude(train_stage("distill", recipe, train_on_a_teacher), recipe)


def train_on_a_teacher(start: Start) -> Iterator[Training | Trained]:
    """Yield trl's trainer, and once `train_stage` has trained it, that there is no more to say."""
    from trl import DistillationTrainer

    from training.model import load_model, load_teacher
    from training.problem_sets import prompt_dataset, rows_that_fit
    from training.trainer import built, require_problems, set_rollout

    recipe = start.recipe
    tokenizer = start.tokenizer
    args = start.args
    teacher = load_teacher(recipe, tokenizer)
    model = load_model(recipe, tokenizer, start.warm_start)
    rows = weighted(start.rows)
    rows = rows_that_fit(recipe, model.config, tokenizer, rows)
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * recipe.processes
    require_problems(recipe, len(rows), batch)
    trainer = built(
        "distill",
        DistillationTrainer,
        recipe,
        model,
        tokenizer,
        start.warm_start,
        args=args,
        teacher_model=teacher,
        train_dataset=prompt_dataset(rows, tokenizer, recipe.prompt.system),
    )
    set_rollout(trainer, recipe)
    yield Training(trainer, f"{len(rows):,} problems, teacher {recipe.teacher}", rows)
    yield Trained()
