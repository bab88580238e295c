"""Evaluation: greedy answers to a recipe's held-out problems or benchmarks, judged by the verifier that rewards them.

Per model one `<label>.jsonl` in `outputs/<recipe>/eval/<benchmark>/`, an item a line; a run that was killed goes on
with the batch it stopped at. `summary.json` and `report.md` are made from those files alone.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from data import prompt
from rewards.verifier import is_correct
from stages import statistics
from stages.cli import make_command, quiet_libraries, run, say
from stages.meaning import named
from stages.model import base_model, load_model, load_tokenizer
from stages.problems import load_benchmark, load_train
from stages.recipe import Recipe, RecipeError

HELD_OUT = "held-out"


def main(recipe: Recipe, held_out: bool = False, model: list[str] | None = None):
    """Evaluate a recipe's base model, its warm start and its trained policy, with the recipe's prompt."""
    quiet_libraries()
    root = recipe.stage_dir("eval")
    problems = {HELD_OUT: load_train(recipe)[1]} if held_out else benchmarks(recipe)
    models = {path.strip("/").replace("/", "--"): path for path in model} if model else stages_of(recipe)
    for label, trained in models.items():
        judged_recipe, trained = (recipe, trained) if not model else in_place_of_base(recipe, trained)
        tokenizer, policy = load_tokenizer(judged_recipe), None
        for benchmark, rows in problems.items():
            answers = Answers(root / benchmark, label, settings(judged_recipe, trained), rows)
            if answers.missing(recipe.evaluate.batch_size):
                policy = policy or _on_device(load_model(judged_recipe, tokenizer, trained))
                answers.complete(policy, tokenizer, recipe)
    for benchmark in problems:
        say("\n" + statistics.report(root / benchmark, list(models)))
    say(f"\nin {root}" + (f"\nnext: {make_command('eval', recipe)} for the benchmarks" if held_out else ""))


def benchmarks(recipe: Recipe) -> dict[str, list[dict]]:
    if not recipe.evaluate.benchmarks:
        raise RecipeError([f"{recipe.name} names no evaluate.benchmarks"])
    return {named(entry)[0]: load_benchmark(recipe, entry) for entry in recipe.evaluate.benchmarks}


def stages_of(recipe: Recipe) -> dict[str, Path | None]:
    """Label to folder of what there is to evaluate: the base model (None), and every finished stage."""
    done = [stage for stage in ("sft", "grpo") if (recipe.stage_dir(stage) / "summary.json").is_file()]
    return {"base": None} | {stage: recipe.stage_dir(stage) for stage in done}


def in_place_of_base(recipe: Recipe, path: str) -> tuple[Recipe, Path | None]:
    """The recipe with a whole model, which brings its own tokenizer, as its base; an adapter stays on the recipe's."""
    if (Path(path) / "adapter_config.json").is_file():
        return recipe, Path(path)
    base = dataclasses.replace(recipe.model, name_or_path=path, build=None, revision=None)
    return dataclasses.replace(recipe, model=base), None


def settings(recipe: Recipe, trained: str | Path | None) -> dict:
    """What an answer depends on, kept at the head of its file."""
    folder = recipe.resolved()
    return {
        "base": base_model(recipe),
        "trained": trained and str(trained),
        "dtype": recipe.model.dtype,
        "system": recipe.prompt.system,
        "max_new_tokens": max_new_tokens(recipe),
        "data": folder["data"],
    }


def max_new_tokens(recipe: Recipe) -> int:
    """As many tokens as training allows a completion, unless the recipe says otherwise."""
    return recipe.evaluate.max_new_tokens or recipe.grpo.get("max_completion_length", 512)


def _on_device(model: PreTrainedModel) -> PreTrainedModel:
    """On a GPU where there is one; a quantised model has been placed already."""
    if torch.cuda.is_available() and not getattr(model, "is_quantized", False):
        model = model.to("cuda")
    return model.eval()


class Answers:
    """One model's answers to one benchmark: `<label>.jsonl`, the settings in its first line, then an item a line.

    Problems are answered in batches of similar length, in an order that depends on the problems alone. Whole batches
    are what is kept and resumed, since the padding of a batch can move a greedy answer.
    """

    def __init__(self, folder: Path, label: str, settings: dict, rows: list[dict]):
        self.file, self.label, self.settings, self.rows = folder / f"{label}.jsonl", label, settings, rows
        self.done: list[dict] = []
        if self.file.is_file():
            lines = self.file.read_text(encoding="utf-8").split("\n")[:-1]
            head, *items = [json.loads(line) for line in lines] or [settings]
            if head != settings:
                changed = [key for key in settings if head.get(key) != settings[key]]
                raise RecipeError(
                    [f"{self.file} has answers made with another {', '.join(changed)}: move it, or override output_dir"]
                )
            self.done = items

    def order(self) -> list[int]:
        return sorted(range(len(self.rows)), key=lambda i: (-len(self.rows[i]["problem"]), i))

    def missing(self, batch_size: int) -> list[list[int]]:
        """Batches of row numbers that are not answered yet."""
        order = self.order()
        batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        answered = {item["id"] for item in self.done}
        return [batch for batch in batches if not answered.issuperset(batch)]

    def complete(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe):
        """Answer what is missing, batch by batch, each written before the next is begun."""
        missing = self.missing(recipe.evaluate.batch_size)
        torn = {i for batch in missing for i in batch}
        self.done = [item for item in self.done if item["id"] not in torn]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        opened = prompt.think_opened(tokenizer)
        began, answered = time.monotonic(), 0
        # Written to the side first: a kill in between must not cost the answers there are.
        kept = self.file.with_suffix(".partial")
        lines = [json.dumps(line, ensure_ascii=False) + "\n" for line in [self.settings, *self.done]]
        kept.write_text("".join(lines), encoding="utf-8")
        kept.replace(self.file)
        with self.file.open("a", encoding="utf-8") as file:
            for batch in missing:
                rows = [self.rows[i] for i in batch]
                conversations = [prompt.messages(row["problem"], recipe.prompt.system) for row in rows]
                texts, lengths, cut = generate(model, tokenizer, conversations, max_new_tokens(recipe))
                for i, row, text, tokens, truncated in zip(batch, rows, texts, lengths, cut, strict=True):
                    item = judged(row, ("<think>" if opened else "") + text, recipe.strict)
                    item = {"id": i, **item, "tokens": tokens, "truncated": truncated}
                    self.done.append(item)
                    file.write(json.dumps(item, ensure_ascii=False) + "\n")
                file.flush()
                answered += len(batch)
                left = (time.monotonic() - began) / answered * (len(torn) - answered)
                say(f"{self.file.parent.name} {self.label}: {len(self.done)}/{len(self.rows)}  {left:.0f} s left")


def judged(row: dict, response: str, strict: bool) -> dict:
    """An item of the answers' file: `right` as the reward judges it in training; `lenient` a right final answer in any
    form, `strict` only one in a closed `<answer>` block."""
    lenient, in_form = (
        is_correct(response, row["solution"], question=row["problem"], strict=only_in_form)
        for only_in_form in (False, True)
    )
    verdict = in_form if strict else lenient
    return {
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


@torch.inference_mode()
def generate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, conversations: list[list[dict]], max_new_tokens: int
) -> tuple[list[str], list[int], list[bool]]:
    """Greedy completions of a batch: texts, lengths in tokens without the end token, and whether each was cut off."""
    prompts = [prompt.prompt_ids(tokenizer, conversation) for conversation in conversations]
    batch = tokenizer.pad({"input_ids": prompts}, padding=True, padding_side="left", return_tensors="pt").to(
        model.device
    )
    # The model's own config may hold a temperature or a repetition penalty, which greedy decoding must not inherit.
    tokens = model.generate(
        **batch,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        repetition_penalty=1.0,
        max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
    )[:, batch["input_ids"].shape[1] :]
    ends = set(model.generation_config.eos_token_id)
    texts, lengths, truncated = [], [], []
    for row in tokens.tolist():
        length = next((i for i, token in enumerate(row) if token in ends), len(row))
        texts.append(tokenizer.decode(row[:length], skip_special_tokens=True))
        lengths.append(length)
        truncated.append(length == len(row))
    return texts, lengths, truncated


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--held-out", action="store_true", help="the held-out problems instead of the benchmarks")
    parser.add_argument(
        "--model", action="append", help="a model or adapter folder or Hub id, instead of the recipe's own"
    )


if __name__ == "__main__":
    run("evaluate", main, add_arguments)
