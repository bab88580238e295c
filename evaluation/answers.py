"""Who is evaluated: the base model, the base shown one example, each finished stage, or any model
that is named. And their answers to a benchmark: made in batches, judged and kept, so that a killed
evaluation resumes.
"""

import dataclasses
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from data import prompt
from data.problems import judged_by
from evaluation import report
from rewards.verifier import judge_all
from runs.folder import CONTROL, hash_of, weights_of
from schema.configs import setting
from schema.faults import RecipeError
from schema.names import no_such_folder
from schema.recipe import Recipe
from schema.sections import Sampling
from schema.stages import STAGES, finished
from schema.terminal import say
from training.checkpoints import is_adapter


class Contestant(NamedTuple):
    """A model to evaluate. `trained`: the folder a stage wrote, None for the recipe's base model.
    `example`: a worked problem shown before each question. `sampling`: how it is asked, where that
    is not what the recipe says of all its benchmarks."""

    label: str
    recipe: Recipe
    trained: Path | None = None
    example: dict | None = None
    sampling: Sampling | None = None

    @property
    def asked(self) -> Sampling:
        return self.sampling or self.recipe.evaluate.sampling()


def stages_of(recipe: Recipe) -> list[Contestant]:
    """The base model, and every finished stage."""
    done = [stage for stage in STAGES if finished(recipe.stage_dir(stage))]
    return [
        Contestant("base", recipe),
        *(Contestant(stage, recipe, recipe.stage_dir(stage)) for stage in done),
    ]


def control(recipe: Recipe, train: list[dict]) -> list[Contestant]:
    """The base model shown the form once, by the first worked problem of the training set: the part
    of a gain that is only form, it reaches without training. Empty where no problem has a worked
    solution."""
    worked = next(
        (row for row in train if row["reasoning"] and row.get("answer") in (None, row["solution"])),
        None,
    )
    return [Contestant(CONTROL, recipe, example=worked)] if worked else []


def named_model(recipe: Recipe, path: str) -> Contestant:
    """A model that the user names: a whole model replaces the recipe's base, with its own tokenizer
    and unquantised; an adapter is put on that base.

    Raises:
        RecipeError: the folder is not there.
    """
    if wrong := no_such_folder(path):
        raise RecipeError([f"MODEL={path}: {wrong}"])
    whole, outputs = Path(path).resolve(), Path(recipe.output_dir).resolve()
    label = str(whole.relative_to(outputs)) if whole.is_relative_to(outputs) else path
    label = re.sub(r"[^\w.-]+", "--", label).strip("-.")
    if is_adapter(path):
        return Contestant(label, recipe, Path(path))
    base = dataclasses.replace(recipe.model, name_or_path=path, build=None, revision=None)
    return Contestant(label, dataclasses.replace(recipe, model=base, quantization=None, places={}))


def settings(contestant: Contestant, rows: list[dict], first_prompt: list[int]) -> dict:
    """Everything an answer depends on. It is the first line of the answers' file, so that answers
    of another model, to other problems or with another prompt are never mistaken for these."""
    from evaluation.engines import dtype, max_new_tokens
    from training.model import base_model

    recipe = contestant.recipe
    return {
        "model": base_model(recipe),
        "revision": recipe.model.revision,
        "trained": contestant.trained and str(contestant.trained),
        "weights": weights_of(contestant.trained or Path(base_model(recipe))),
        "dtype": dtype(recipe),
        "quantization": recipe.quantization,
        "example": contestant.example and contestant.example["problem"],
        "problems": hash_of([judged_by(row) for row in rows]),
        "prompt": hash_of(first_prompt),
        "strict": recipe.strict,
        "max_new_tokens": max_new_tokens(recipe),
        "engine": recipe.evaluate.engine,
        **(
            {"tools": [recipe.tools, setting(recipe, "grpo", "max_tool_calling_iterations")]}
            if recipe.tools
            else {}
        ),
        "batch_size": recipe.evaluate.batch_size,
        "seed": recipe.seed if contestant.asked.temperature else None,
        **contestant.asked.settings,
    }


class Answers:
    """One model's answers to one benchmark: `<label>.jsonl`, the settings in its first line, then
    an answer a line.

    Batches hold prompts of similar length, in an order that depends on the problems alone. Only
    whole batches are kept when a run resumes, since a batch's padding can change a greedy answer,
    and each batch samples with its own seed. `<label>.seconds.jsonl` records how long each batch
    took.
    """

    def __init__(self, folder: Path, contestant: Contestant, tokenizer, rows: list[dict]):
        self.file = folder / f"{contestant.label}.jsonl"
        self.recipe, self.sampling = contestant.recipe, contestant.asked
        self.rows = rows[: self.sampling.limit]
        self.opened = prompt.think_opened(tokenizer)
        system, example = self.recipe.prompt.system, contestant.example
        conversations = [prompt.messages(row["problem"], system, example) for row in self.rows]
        self.prompts = [
            prompt.prompt_ids(tokenizer, conversation) for conversation in conversations
        ]
        self.settings = settings(contestant, rows, self.prompts[0])
        self.done: list[dict] = []
        if self.file.is_file():
            try:
                head, *items = report.read_answers(self.file) or [self.settings]
            except ValueError as error:
                raise RecipeError([f"{error}: move it, or delete it"]) from None
            if head != self.settings:
                changed = [key for key in self.settings if head.get(key) != self.settings[key]]
                message = (
                    f"{self.file} has answers made with different settings ({', '.join(changed)})"
                )
                raise RecipeError([f"{message}: move it, or delete it"])
            self.done = items

    @property
    def longest_prompt(self) -> int:
        return max(map(len, self.prompts))

    def batches(self) -> dict[int, list[tuple[int, int]]]:
        """(row, sample) of every answer, batch by batch. A batch's number makes its seed."""
        order = sorted(range(len(self.rows)), key=lambda i: (-len(self.rows[i]["problem"]), i))
        every = [(i, sample) for i in order for sample in range(self.sampling.samples)]
        size = self.recipe.evaluate.batch_size
        return dict(enumerate(every[i : i + size] for i in range(0, len(every), size)))

    def missing(self) -> dict[int, list[tuple[int, int]]]:
        """The batches that are not answered yet, by number."""
        answered = {(item["id"], item["sample"]) for item in self.done}
        return {n: batch for n, batch in self.batches().items() if not answered.issuperset(batch)}

    def complete(self, policy: Callable):
        """Answer what is missing by an `Engine`, writing each batch before the next one begins."""
        from training.progress import bar

        missing = self.missing()
        torn = {each for batch in missing.values() for each in batch}
        self.done = [item for item in self.done if (item["id"], item["sample"]) not in torn]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        began, answered, total = time.monotonic(), 0, len(self.done) + len(torn)
        # Written beside it first: a kill in between must not lose the answers already made.
        kept = self.file.with_suffix(".partial")
        kept.write_text("".join(map(_line, [self.settings, *self.done])), encoding="utf-8")
        kept.replace(self.file)
        seconds_file = self.file.with_suffix(".seconds.jsonl")
        if seconds_file.is_file() and not seconds_file.read_bytes().endswith(
            b"\n"
        ):  # a full disk tore its last line
            seconds_file.write_bytes(seconds_file.read_bytes() + b"\n")
        name = f"{self.file.parent.name} {self.file.stem}"
        with (
            self.file.open("a", encoding="utf-8") as file,
            seconds_file.open("a", encoding="utf-8") as seconds,
            bar(name, total, len(self.done)) as live,
        ):
            for number, batch in missing.items():
                batch_began = time.monotonic()
                seed = self.recipe.seed + number * self.recipe.evaluate.batch_size
                made = policy([self.prompts[i] for i, _ in batch], seed, self.sampling)
                took = {
                    "seconds": time.monotonic() - batch_began,
                    "tokens": sum(each.tokens for each in made),
                }
                seconds.write(_line(took))
                seconds.flush()
                responses = [("<think>" if self.opened else "") + each.text for each in made]
                rows = [self.rows[i] for i, _ in batch]
                lines = judged(rows, responses, self.recipe.strict, self.recipe.runs_programs)
                for (i, sample), completion, line in zip(batch, made, lines, strict=True):
                    item = {"id": i, "sample": sample, **line}
                    item |= {"tokens": completion.tokens, "truncated": completion.truncated}
                    item |= {} if completion.turns is None else {"turns": completion.turns}
                    self.done.append(item)
                    file.write(_line(item))
                file.flush()
                answered += len(batch)
                left = (time.monotonic() - began) / answered * (len(torn) - answered)
                live.update(len(batch))
                if live.disable:
                    say(f"{name}: {len(self.done)}/{total}  {left:.0f} s left")


def _line(value: dict) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def judged(
    rows: list[dict], responses: list[str], strict: bool, run_programs: bool = False
) -> list[dict]:
    """A line of the answers' file for each response. `right` is what the reward would say in
    training; `lenient` accepts a right final answer in any form, `strict` only one in a closed
    `<answer>` block."""
    both = judge_all(
        [*responses, *responses],
        [row["solution"] for row in rows] * 2,
        [row["problem"] for row in rows] * 2,
        [row.get("check") for row in rows] * 2,
        strict=[only_in_form for only_in_form in (False, True) for _ in rows],
        run_programs=run_programs,
    )
    lines = []
    for row, response, lenient, in_form in zip(
        rows, responses, both[: len(rows)], both[len(rows) :], strict=True
    ):
        verdict = in_form if strict else lenient
        lines.append(
            {
                "problem": row["problem"],
                "level": row.get("level"),
                "subject": row.get("subject"),
                "gold": row["solution"],
                "response": response,
                "answer": verdict.answer,
                "right": verdict.right,
                "lenient": lenient.right,
                "strict": in_form.right,
                "reason": verdict.reason,
            }
        )
    return lines
