"""Who is evaluated: the base model, the base shown one example, each finished stage, or any model
that is named. And their completions of a benchmark: sampled in batches, judged and kept, so that a
killed evaluation resumes.
"""

import dataclasses
import hashlib
import math
import re
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import NamedTuple

from console.faults import RecipeError
from console.terminal import make_command, say
from data import prompt
from data.problems import judged_by
from evaluation import report
from rewards import verifier
from rewards.verifier import CONTRACT, LENIENT, STRICT, Verdict, judge_all
from runs.files import (
    has_weights,
    hash_of,
    is_adapter,
    json_lines,
    require_lock,
    weights_hash,
)
from runs.identity import MERGED_FROM, find_run, require_merged_from
from runs.records import BASE, CONTROL
from runs.state import RunState
from schema.names import no_such_folder
from schema.recipe import Recipe
from schema.sections import Sampling
from schema.stages import STAGES, finished


class Contestant(NamedTuple):
    """A model to evaluate. `trained`: the folder a stage wrote, None for the recipe's base model.
    `example`: a worked problem (a row) shown before each question. `sampling`: how its completions
    are sampled, None for what the recipe says of all its benchmarks."""

    label: str
    recipe: Recipe
    trained: Path | None = None
    example: dict | None = None
    sampling: Sampling | None = None

    def sampling_or_default(self) -> Sampling:
        return self.sampling or self.recipe.evaluate.sampling()


def stages_of(recipe: Recipe) -> list[Contestant]:
    """The base model, and every finished stage.

    Raises:
        RecipeError: a stage's folder holds a run of another recipe, or one that began from another
            warm start than the one beside it.
    """
    contestants = [Contestant(BASE, recipe)]
    for stage in STAGES:
        if finished(recipe.stage_dir(stage)):
            run = find_run(recipe, stage)
            contestants.append(Contestant(stage, recipe, run.folder))
    return contestants


def control(recipe: Recipe, train: list[dict]) -> list[Contestant]:
    """The base model shown the format once, by the first worked problem of the training set: the
    part of a gain that is only format, it reaches without training. Empty where no problem has a
    worked solution."""
    for row in train:
        if row["reasoning"] and row.get("answer") in (None, row["solution"]):
            return [Contestant(CONTROL, recipe, example=row)]
    return []


def named_model(recipe: Recipe, path: str) -> Contestant:
    """A model that the user names: a whole model replaces the recipe's base, with its own tokenizer
    and unquantised; an adapter is put on that base; `base` is that base itself. Raises RecipeError
    where no folder is there."""
    if path == BASE:
        return Contestant(BASE, recipe)
    if problem := no_such_folder(path):
        raise RecipeError([f"MODEL={path}: {problem}"])
    folder = Path(path).resolve()
    if finished(folder) and folder.name in STAGES:
        RunState.read(folder).require_weights(make_command(folder.name, recipe))
    trained = folder.with_name("grpo")
    if (folder / MERGED_FROM).is_file() and finished(trained):
        require_merged_from(trained, folder)
    outputs = Path(recipe.output_dir).resolve()
    label = path
    if folder.is_relative_to(outputs):
        label = str(folder.relative_to(outputs))
    label = re.sub(r"[^\w.-]+", "--", label).strip("-.")
    if is_adapter(path):
        return Contestant(label, recipe, Path(path))
    base = dataclasses.replace(recipe.model, name_or_path=path, build=None, revision=None)
    return Contestant(label, dataclasses.replace(recipe, model=base, quantization=None, places={}))


@cache
def judge_version() -> str:
    """16 hexadecimal digits that identify the rules by which completions are judged: the verifier's
    code and tables, and the libraries that do its algebra."""
    digest = hashlib.sha256()
    for package in ("math-verify", "latex2sympy2_extended", "sympy"):
        digest.update(f"{package} {version(package)}\0".encode())
    for file in sorted(Path(verifier.__file__).parent.rglob("*")):
        if file.suffix in (".py", ".tsv", ".txt"):
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def completion_settings(contestant: Contestant, rows: list[dict], first_prompt: list[int]) -> dict:
    """Everything a completion and its verdict depend on. It is the first line of the completions'
    file, so that those of another model, to other problems, with another prompt or by another judge
    are never mistaken for these."""
    from evaluation.engines import dtype, max_new_tokens
    from training.model import base_model

    recipe = contestant.recipe
    sampling = contestant.sampling_or_default()
    trained = None
    if contestant.trained:
        trained = str(contestant.trained)
    example = None
    if contestant.example:
        example = contestant.example["problem"]
    all_settings = {
        "model": base_model(recipe),
        "revision": recipe.model.revision,
        "trained": trained,
        "weights": weights_hash(contestant.trained or Path(base_model(recipe))),
        "dtype": dtype(recipe),
        "quantization": recipe.quantization,
        "example": example,
        "problems": hash_of(list(map(judged_by, rows))),
        "prompt": hash_of(first_prompt),
        "strict": recipe.strict,
        "judge": judge_version(),
        "max_new_tokens": max_new_tokens(recipe),
        "engine": recipe.evaluate.engine,
        "batch_size": recipe.evaluate.batch_size,
        "seed": recipe.seed if sampling.temperature else None,
    }
    if recipe.tolerance:
        all_settings["tolerance"] = recipe.tolerance
    if recipe.tools:
        max_calls = recipe.settings["grpo"]["max_tool_calling_iterations"]
        all_settings["tools"] = [recipe.tools, max_calls]
    return all_settings | sampling.settings


class StoredCompletions:
    """One model's completions of one benchmark, judged: `<label>.jsonl`, the settings in its first
    line, then a completion a line.

    Batches hold prompts of similar length, in an order that depends on the problems alone. Only
    whole batches are kept when a run resumes, since a batch's padding can change a greedy
    completion, and each batch samples with its own seed. `<label>.seconds.jsonl` records how long
    each batch took.

    Args:
        room: the tokens of the longest prompt that the model can complete. A longer one is not
            asked, and its completion counts as cut off, and so as not correct.
        batches: (row, sample) of every completion, batch by batch, by a number that makes the
            batch's seed; by default as `batches_by_length` makes them.
    """

    def __init__(
        self,
        folder: Path,
        contestant: Contestant,
        tokenizer,
        rows: list[dict],
        room: float = math.inf,
        batches: dict[int, list[tuple[int, int]]] | None = None,
    ):
        self.file = folder / f"{contestant.label}.jsonl"
        self.recipe = contestant.recipe
        self.sampling = contestant.sampling_or_default()
        self.all_rows = rows
        self.rows = rows[: self.sampling.limit]
        self.room = room
        self.opened = prompt.think_opened(tokenizer)
        self.prompts = []
        for row in self.rows:
            conversation = prompt.messages(row, self.recipe.prompt.system, contestant.example)
            self.prompts.append(prompt.prompt_ids(tokenizer, conversation))
        self.settings = completion_settings(contestant, rows, self.prompts[0])
        self.weights = Path(self.settings["trained"] or self.settings["model"])
        size = self.recipe.evaluate.batch_size
        self.batches = batches or batches_by_length(self.rows, self.sampling.samples, size)
        self.lines = self._read()

    def _read(self) -> list[dict]:
        """The judged completions in the file. They are judged anew where only the judge has
        changed, and the file is set aside where the weights have.

        Raises:
            RecipeError: the file cannot be read, or its completions were sampled with other
        settings."""
        if not self.file.is_file():
            return []
        try:
            head, *lines = report.read_completions(self.file) or [self.settings]
        except ValueError as error:
            raise RecipeError([f"{error}: move it, or delete it"]) from None
        changed = self._changed(head)
        if changed == ["judge"]:
            return self._judged_anew(lines)
        if "weights" in changed:
            self._set_aside()
            return []
        if changed:
            message = f"{self.file} was sampled with different settings ({', '.join(changed)})"
            raise RecipeError([f"{message}: move it, or delete it"])
        return lines

    def _changed(self, head: dict) -> list[str]:
        """The settings in which a file's completions differ from these; equal weights may have
        moved."""
        before = dict(head)
        if self.settings["weights"] and has_weights(self.weights, head):
            for key in ("weights", "trained"):
                before[key] = self.settings[key]
            if Path(str(head.get("model"))).name == Path(self.settings["model"]).name:
                before["model"] = self.settings["model"]
        return [key for key in self.settings | before if before.get(key) != self.settings.get(key)]

    def _judged_anew(self, lines: list[dict]) -> list[dict]:
        """The completions with the verdicts of today's verifier, written into the file. Raises
        RecipeError where the file is not what an evaluation wrote."""
        try:
            rows = [self.all_rows[line["id"]] for line in lines]
            completions = [str(line["completion"]) for line in lines]
        except LookupError:
            message = f"{self.file} is not what an evaluation of these problems wrote"
            raise RecipeError([f"{message}: move it, or delete it"]) from None
        judgements = judged(rows, completions, self.recipe.strict, self.recipe.tolerance)
        self.lines = []
        changed = 0
        for line, judgement in zip(lines, judgements, strict=True):
            changed += line["correct"] != judgement["correct"]
            self.lines.append(line | judgement)
        self._rewrite()
        say(
            f"{self.file}: the verifier has changed since, so its completions were judged anew:"
            f" {changed:,} of {len(lines):,} verdicts are others"
        )
        return self.lines

    def _set_aside(self):
        """Rename the file of another policy's completions, for this policy's have the same name."""
        number = 1
        while self.file.with_name(f"{self.file.name}.{number}").exists():
            number += 1
        aside = self.file.with_name(f"{self.file.name}.{number}")
        self.file.replace(aside)
        self.file.with_suffix(".seconds.jsonl").unlink(missing_ok=True)
        say(
            f"{self.file}: its completions were sampled with other weights; they are now in {aside}"
        )

    @property
    def longest_prompt(self) -> int:
        return max((len(ids) for ids in self.prompts if len(ids) <= self.room), default=0)

    def missing(self) -> dict[int, list[tuple[int, int]]]:
        """The batches that are not sampled yet, by number."""
        sampled = {(line["id"], line["sample"]) for line in self.lines}
        return {n: batch for n, batch in self.batches.items() if not sampled.issuperset(batch)}

    def complete(self, policy: Callable):
        """Sample what is missing by an `Engine`, writing each batch before the next one begins."""
        missing = self.missing()
        to_sample = set().union(*missing.values())
        self.lines = [line for line in self.lines if (line["id"], line["sample"]) not in to_sample]
        self._rewrite()
        seconds_file = self.file.with_suffix(".seconds.jsonl")
        if seconds_file.is_file() and not seconds_file.read_bytes().endswith(b"\n"):
            # A full disk tore its last line.
            seconds_file.write_bytes(seconds_file.read_bytes() + b"\n")
        name = f"{self.file.parent.name} {self.file.stem}"
        total = len(self.lines) + len(to_sample)
        too_long = sum(len(ids) > self.room for ids in self.prompts)
        if too_long:
            say(
                f"{name}: {too_long:,} of {len(self.prompts):,} prompts leave no room for an answer"
                f" in the model's window (more than {self.room:,} tokens): they count as not"
                " correct. A lower evaluate.max_new_tokens leaves more room"
            )
        start = time.monotonic()
        sampled = 0
        with (
            self.file.open("a", encoding="utf-8") as file,
            seconds_file.open("a", encoding="utf-8") as seconds,
        ):
            for number, batch in missing.items():
                batch_start = time.monotonic()
                seed = self.recipe.seed + number * self.recipe.evaluate.batch_size
                completions = self._completions(policy, [self.prompts[i] for i, _ in batch], seed)
                tokens = sum(completion.tokens for completion in completions)
                require_lock(self.file.parent)
                spent = {"seconds": time.monotonic() - batch_start, "tokens": tokens}
                seconds.write(json_lines([spent]))
                seconds.flush()
                lines = self._judged(batch, completions)
                self.lines += lines
                file.write(json_lines(lines))
                file.flush()
                sampled += len(batch)
                seconds_each = (time.monotonic() - start) / sampled
                seconds_left = seconds_each * (len(to_sample) - sampled)
                say(f"{name}: {len(self.lines)}/{total}  {seconds_left:.0f} s left")

    def _completions(self, policy: Callable, prompts: list[list[int]], seed: int) -> list:
        """The completions of a batch, empty for the prompts that are too long."""
        from evaluation.engines import Completion

        completions = [Completion("", 0, truncated=True)] * len(prompts)
        places = [place for place, ids in enumerate(prompts) if len(ids) <= self.room]
        if places:
            sampled = policy([prompts[place] for place in places], seed, self.sampling)
            for place, completion in zip(places, sampled, strict=True):
                completions[place] = completion
        return completions

    def _rewrite(self):
        """Write the file anew with the completions that stay. It is written beside it first: a kill
        in between must not lose those already sampled."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        partial.write_text(json_lines([self.settings, *self.lines]), encoding="utf-8")
        partial.replace(self.file)

    def _judged(self, batch: list[tuple[int, int]], completions: list) -> list[dict]:
        """The lines of the file for the completions of a batch."""
        opening = "<think>" if self.opened else ""
        rows = [self.rows[i] for i, _ in batch]
        texts = [opening + completion.text for completion in completions]
        judgements = judged(rows, texts, self.recipe.strict, self.recipe.tolerance)
        lines = []
        for (i, sample), completion, judgement in zip(batch, completions, judgements, strict=True):
            line = {"id": i, "sample": sample, **judgement}
            line["tokens"] = completion.tokens
            line["truncated"] = completion.truncated
            if completion.turns is not None:
                line["turns"] = completion.turns
            lines.append(line)
        return lines


def batches_by_length(
    rows: list[dict], samples: int, size: int
) -> dict[int, list[tuple[int, int]]]:
    """(row, sample) of every answer, by the number of its batch: the longest problems first."""
    order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]["problem"]), i))
    all_samples = list(product(order, range(samples)))
    starts = range(0, len(all_samples), size)
    return {n: all_samples[start : start + size] for n, start in enumerate(starts)}


def judge_rows(rows: list[dict], completions: list[str], **options) -> list[Verdict]:
    """The verdict on a completion for each row. `options`: those of `judge_all`."""
    return judge_all(
        completions,
        [row["solution"] for row in rows],
        [row.get("problem") for row in rows],
        **options,
    )


def _kinds(row: dict) -> dict[str, str | None]:
    """The level and the subject of a problem as text, by which a report groups."""
    kinds = {}
    for key in ("level", "subject"):
        kinds[key] = row.get(key)
        if kinds[key] is not None:
            kinds[key] = str(kinds[key])
    return kinds


def judged(
    rows: list[dict], completions: list[str], strict: bool, tolerance: float = 0.0
) -> list[dict]:
    """The judgement of each completion, as its line of the file has it. `correct` is what the
    reward would say in training, by its contract; `lenient` reads the last number where that finds
    none; `strict` reads a closed `<answer>` block alone."""
    n = len(rows)
    # One call for the three readings, so that its worker processes start once.
    reading = [CONTRACT] * n + [LENIENT] * n + [STRICT] * n
    verdicts = judge_rows(rows * 3, completions * 3, reading=reading, tolerance=tolerance)
    lines = []
    readings = zip(
        rows, completions, verdicts[:n], verdicts[n : 2 * n], verdicts[2 * n :], strict=True
    )
    for row, completion, by_contract, lenient, in_format in readings:
        verdict = in_format if strict else by_contract
        lines.append(
            {
                "problem": prompt.question_text(prompt.messages(row, None)),
                **_kinds(row),
                "gold": row["solution"],
                "completion": completion,
                "answer": verdict.answer,
                "correct": verdict.correct,
                "lenient": lenient.correct,
                "strict": in_format.correct,
                "reason": verdict.reason,
            }
        )
    return lines
