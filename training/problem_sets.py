"""The problems of a recipe: its training rows, its validation rows, and its benchmarks; and the
prompts that trl's trainer samples from."""

import heapq
import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

from console.faults import Fault, NotReached, RecipeError, item
from console.terminal import say
from data import prompt
from data.files import DataError, DataNotReached
from data.identity import Overlap, fingerprint, overlaps, split_validation
from data.problems import HIDDEN, for_rewards, is_computed, is_here, load
from runs.identity import changes, data_of
from runs.state import RunState
from schema.conditions import points_shown_by
from schema.names import benchmark_label, missing_columns, name_and_arguments
from schema.recipe import Recipe
from schema.sections import VALIDATION
from schema.settings import choosing_problems, evaluated_problems
from schema.stages import STAGES, finished

if TYPE_CHECKING:
    from datasets import Dataset

NONE_WORKED = (
    "no training problem has a worked solution to learn from: name its column, as `columns:"
    " {reasoning: …}` in data.train, set data.rejection_sampling, to learn the model's own,"
    " or remove the section"
)


def read_here(recipe: Recipe) -> tuple[Recipe, bool]:
    """The recipe with the data sets alone that are made or read on this machine, without the Hub;
    and whether its training sets are all there. If not, no problem is held out of those."""
    train = _are_here(recipe, recipe.data.train)
    is_complete = train == recipe.data.train
    data = replace(recipe.data, train=train)
    if not is_complete:
        data = replace(data, validation=0)
    evaluate = replace(recipe.evaluate, benchmarks=_are_here(recipe, recipe.evaluate.benchmarks))
    return replace(recipe, data=data, evaluate=evaluate), is_complete


def _are_here(recipe: Recipe, entries: list) -> list:
    return [entry for entry in entries if is_here(name_and_arguments(entry)[0], recipe.data.dir)]


def read(
    recipe: Recipe, is_complete: bool = True
) -> tuple[list[dict], list[Overlap], dict[str, RecipeError]]:
    """The training rows, their overlaps with the benchmarks, and the errors of what could not be
    read, by its name.

    Args:
        is_complete: whether the recipe's training rows are all there; if not, none is compared
            with the benchmarks.
    """
    rows = []
    overlapping = []
    errors = {}
    try:
        if recipe.data.train:
            rows = _rows_of_all(recipe)
            rows, _ = _hold_out(recipe, rows)  # where it fails, the rows can still be looked at
    except RecipeError as error:
        errors["the data"] = error
    try:
        overlapping = overlaps_to_drop(rows if is_complete else [], recipe)
    except RecipeError as error:
        errors["the benchmarks"] = error
    return rows, overlapping, errors


def unfit(rows: list[dict], recipe: Recipe) -> list[Fault]:
    """What the training rows lack that a reward or the warm start needs."""
    if not rows:
        return []
    faults = missing_columns(recipe, list(for_rewards(rows[0])))
    learns_from_data = (
        recipe.sft is not None
        and recipe.data.rejection_sampling is None
        and not finished(recipe.stage_dir("sft"))
    )
    if learns_from_data and not any(row["reasoning"] for row in rows[: recipe.data.worked]):
        faults.append(Fault(recipe.place("sft"), f"sft: {NONE_WORKED}"))
    return faults


def load_train(recipe: Recipe) -> tuple[list[dict], list[dict]]:
    """The (training, validation) rows of `load_data`."""
    rows, validation, _ = load_data(recipe)
    return rows, validation


def load_data(recipe: Recipe) -> tuple[list[dict], list[dict], dict[str, str]]:
    """(training rows, validation rows, their entries in data.json) of all the recipe's training
    sets together, the training rows without those that overlap with a problem of its benchmarks.

    Raises:
        RecipeError: they cannot be read, or lack what a stage needs.
    """
    from accelerate import PartialState

    with PartialState().main_process_first():
        rows, validation = train_and_validation(recipe)
        overlapping = overlaps_to_drop(rows, recipe)
    if overlapping:
        say(
            f"data: {len(overlapping):,} training problems dropped that overlap with the benchmarks"
            " (make decontaminate)"
        )
    data = data_of(rows, validation)
    dropped = {overlap.row for overlap in overlapping}
    data["overlapping"] = " ".join(sorted(fingerprint(rows[i]) for i in dropped))
    rows = [row for i, row in enumerate(rows) if i not in dropped]
    faults = unfit(rows, recipe)
    if faults:
        raise RecipeError(faults)
    return rows, validation, data


def train_and_validation(recipe: Recipe) -> tuple[list[dict], list[dict]]:
    """(training, validation) rows before any is dropped: one more benchmark moves no problem to the
    other side. Says how the data has changed since a finished stage began, and leaves out the
    validation problems on which that stage was trained."""
    return _hold_out(recipe, _rows_of_all(recipe))


def _rows_of_all(recipe: Recipe) -> list[dict]:
    """The rows of all training sets, with the same columns."""
    rows = []
    for rows_of_set in _load(recipe, recipe.data.train, "train"):
        rows += rows_of_set
    # A column that one of several sets has is None in the others' rows.
    columns = dict.fromkeys(key for row in rows for key in row)
    rows = [columns | row for row in rows]
    for column in columns:
        if column not in HIDDEN:
            _leave_out_if_mixed(rows, column)
    return rows


def _hold_out(recipe: Recipe, rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """See `train_and_validation`."""
    try:
        names = [name_and_arguments(entry)[0] for entry in recipe.data.train]
        by_place = all(map(is_computed, names))
        size = validation_size(recipe, len(rows))
        train, validation = split_validation(rows, size, by_place)
    except DataError as error:
        raise RecipeError([Fault(recipe.place("data", "validation"), str(error))]) from error
    _say_shares(recipe, len(rows), size)
    return train, _never_trained_on(recipe, train, validation)


def validation_size(recipe: Recipe, problems: int) -> int:
    """How many of so many problems are held out: as the recipe says, or else a fifth."""
    if recipe.data.validation is not None:
        return recipe.data.validation
    return max(1, min(VALIDATION, problems // 5))


def _say_shares(recipe: Recipe, problems: int, validation: int):
    """Say how many problems are held out and what for, where no number in the recipe does. Raises
    RecipeError where they cannot be shared."""
    choosing = 0
    if not validation:  # of problems that are not all there
        return
    if recipe.settings["grpo"]["eval_steps"] and recipe.evaluate.checkpoint_problems != 0:
        choosing = choosing_problems(recipe, validation)
        if not 0 < choosing < validation:
            raise RecipeError([_unshared(recipe, validation, choosing)])
    comparing = validation - choosing
    sizes = (recipe.data.validation, recipe.evaluate.checkpoint_problems)
    if None not in sizes[: 1 + bool(choosing)]:
        return
    choice = f"{choosing:,} choose the checkpoint, " if choosing else ""
    say(
        f"data: {validation:,} of {problems:,} problems are held out: {choice}{comparing:,} compare"
        f" the stages, and can show a gain of {points_shown_by(comparing)} points or more"
    )


def _unshared(recipe: Recipe, validation: int, choosing: int) -> Fault:
    """The fault of validation problems of which none is left to compare the stages, or to choose
    the checkpoint."""
    key = ("evaluate", "checkpoint_problems")
    message = (
        f"{choosing:,} problems choose the checkpoint, and none of the {validation:,} that are held"
        " out is left to compare the stages"
    )
    advice = f"write evaluate.checkpoint_problems: {validation // 2}, or leave it out"
    if validation == 1 or not choosing:
        message = (
            f"{validation:,} held-out problems are too few to choose it and compare the stages"
        )
        advice = "add problems, or leave grpo.eval_steps out"
    return Fault(recipe.place(*key), f"{'.'.join(key)}: {message}: {advice}")


def _never_trained_on(recipe: Recipe, train: list[dict], validation: list[dict]) -> list[dict]:
    """The validation rows without those on which a finished stage of the recipe was trained, since
    the data was another then; says how it has changed."""
    folders = [recipe.stage_dir(stage) for stage in STAGES if finished(recipe.stage_dir(stage))]
    if not folders:
        return validation
    data = data_of(train, validation)
    excluded = set()
    for folder in folders:
        words, trained = changes(RunState.read(folder).data, data)
        excluded |= trained
        if words and trained:
            words += f"; {len(trained):,} validation problems were trained on, and are left out"
        if words:
            say(f"the data has changed since {folder} began: {words}")
    unseen = [row for row in validation if fingerprint(row) not in excluded]
    if validation and not unseen:
        message = "data.train: every validation problem was trained on, when the data was another:"
        message += " change it back, or train anew in another output_dir"
        raise RecipeError([Fault(recipe.place("data", "train"), message)])
    return unseen


def _leave_out_if_mixed(rows: list[dict], column: str):
    """Remove a column for rewards from the rows if its values are of several types; says so."""
    reason = why_mixed([row[column] for row in rows])
    if reason is None:
        return
    say(f"data: rewards do not get the column {column!r}: give its values one type ({reason})")
    for row in rows:
        del row[column]


def why_mixed(values: list) -> str | None:
    """Why a table cannot have these values in one column; None where it can."""
    if all(value is None or (type(value) is str and value.isascii()) for value in values):
        return None
    import pyarrow

    try:
        pyarrow.array(values)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        return str(error).splitlines()[0]
    return None


def share_validation(recipe: Recipe, validation: list[dict]) -> tuple[list[dict], list[dict]]:
    """(problems that are asked while training, those that compare the stages afterwards): never the
    same where the former choose the checkpoint, for one chosen by a measurement looks better in it
    than it is."""
    if not recipe.settings["grpo"]["eval_steps"]:
        return [], validation
    number = evaluated_problems(recipe, len(validation))
    if recipe.evaluate.checkpoint_problems == 0:
        return validation[:number], validation
    return validation[:number], validation[number:]


def prompt_lengths(rows: list[dict], tokenizer, system: str | None) -> list[int]:
    """Tokens of the prompts of up to a thousand of the rows, ascending. The last is the longest of
    all rows, looked for among those of the most characters."""
    sample = random.Random(0).sample(rows, min(1000, len(rows)))
    lengths = sorted(len(prompt.question_ids(tokenizer, row, system)) for row in sample)
    for row in heapq.nlargest(100, rows, key=lambda row: len(row["problem"])):
        lengths[-1] = max(lengths[-1], len(prompt.question_ids(tokenizer, row, system)))
    return lengths


def overlaps_to_drop(rows: list[dict], recipe: Recipe) -> list[Overlap]:
    """The training rows that are dropped, since a benchmark asks them too.

    Raises:
        RecipeError: they are all the rows.
    """
    overlapping = overlaps(rows, load_benchmarks(recipe))
    if overlapping and len(overlapping) == len(rows):
        message = (
            "data.train: every problem is also in a benchmark; nothing is left to train on:"
            " train on others, or leave the benchmark out (evaluate.benchmarks: [] for none)"
        )
        raise RecipeError([Fault(recipe.place("data", "train"), message)])
    return overlapping


def load_benchmarks(recipe: Recipe) -> dict[str, list[dict]]:
    """Label to test problems of every benchmark of the recipe."""
    entries = recipe.evaluate.benchmarks
    return dict(zip(map(benchmark_label, entries), _load(recipe, entries, "test"), strict=True))


def _load(recipe: Recipe, entries: list, part: str) -> list[list[dict]]:
    """The rows of each data set. Raises RecipeError with the faults of all of them, or NotReached
    where they would be read if the Hub were reached."""
    keys = ("evaluate", "benchmarks")
    golds = None  # a benchmark is one set, whatever another asks
    if part == "train":
        keys = ("data", "train")
        golds = {}
    sets = []
    faults = []
    unreached = []
    for entry in entries:
        name, arguments = name_and_arguments(entry)
        place = recipe.place(*keys, item(entry))
        try:
            rows, report = load(name, part, arguments, recipe.data.dir, golds)
        except DataError as error:
            message = str(error) if name in str(error) else f"{name}: {error}"
            if isinstance(error, DataNotReached):
                unreached.append(Fault(place, message))
            else:
                faults.append(Fault(place, message))
            continue
        say(f"data: {report}")
        sets.append(rows)
    if faults:
        raise RecipeError(faults)
    if unreached:
        raise NotReached(unreached)
    return sets


# What trl's trainer samples from ------------------------------------------------------------------


def rows_that_fit(
    recipe: Recipe, config, tokenizer, rows: list[dict], kind: str = "problems"
) -> list[dict]:
    """The rows whose prompts leave room for the longest completion in the window of the model, and
    in vLLM's where it samples.

    Args:
        config: of the model.
        kind: what the rows are, for the message.

    Raises:
        RecipeError: there are none.
    """
    longest = longest_prompt(recipe, config)
    system = recipe.prompt.system
    template_tokens = len(prompt.question_ids(tokenizer, "", system))
    fitting = []
    for row in rows:
        # A token is at least one byte, so most rows need not be tokenised.
        tokens = template_tokens + len(row["problem"].encode())
        if tokens > longest or row.get(prompt.TURNS):
            tokens = len(prompt.question_ids(tokenizer, row, system))
        if tokens <= longest:
            fitting.append(row)
    if not fitting:
        room = "no room for a prompt"
        if longest > 0:
            room = f"{longest:,} tokens for a prompt, and none of the {kind} is that short"
        place = recipe.place("grpo", "max_completion_length")
        raise RecipeError([Fault(place, f"grpo.max_completion_length leaves {room}")])
    if len(fitting) < len(rows):
        say(
            f"grpo: left out {len(rows) - len(fitting):,} {kind} whose prompts have more than"
            f" {longest:,} tokens"
        )
    return fitting


def window_of(config) -> float:
    """How many tokens a model reads, infinite where its config sets no limit."""
    return getattr(config.get_text_config(), "max_position_embeddings", None) or math.inf


def longest_prompt(recipe: Recipe, config) -> float:
    """In tokens, beside the longest completion."""
    window = window_of(config)
    grpo = recipe.settings["grpo"]
    if grpo["use_vllm"] and grpo["vllm_max_model_length"]:
        window = min(window, grpo["vllm_max_model_length"])
    return window - grpo["max_completion_length"]


def prompt_dataset(rows: list[dict], tokenizer, system: str | None) -> "Dataset":
    """The rows with the columns `prompt` (messages) and `think_opened`, and with every other one
    for rewards.

    Raises:
        DataError: a column has values of several types, half a character, or is nested too deeply.
    """
    from datasets import Dataset
    from pyarrow import ArrowException

    opened = prompt.think_opened(tokenizer)
    prompted = []
    for row in rows:
        columns = for_rewards(row)
        columns["prompt"] = prompt.messages(row, system)
        columns["think_opened"] = opened
        prompted.append(columns)
    answers = [columns["answer"] for columns in prompted]
    if len(set(map(type, answers))) > 1 or why_mixed(answers):  # of several sets
        for columns in prompted:
            columns["answer"] = str(columns["answer"])
    try:
        return Dataset.from_list(prompted)
    except (ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = "a column has values of several types, half a character, or is nested too deeply"
        raise DataError(f"data.train: {reason}: {str(error).splitlines()[0]}") from error
