"""How often the policy that GRPO starts from solves each training problem, and which problems GRPO
then trains on.

`pass_rates.jsonl` and the figures are made from `completions.jsonl` alone, with the verifier of
`correct_answer`.
"""

import dataclasses
import json
import math
import random
from collections import Counter
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from console.faults import Fault, RecipeError
from console.terminal import make_command, row, say
from data import prompt
from data.json_files import LARGEST, all_lines
from evaluation import pictures
from evaluation.answers import Answers, Contestant, answer_settings
from evaluation.report import batches
from evaluation.statistics import all_alike, interval, wilson
from schema.configs import setting, with_floats
from schema.recipe import Recipe
from training import memory
from training.checkpoints import sha256, write_whole
from training.model import base_model
from training.prompts import rows_that_fit
from training.run_folder import PASS_RATES, warm_start_of
from training.writing import link_inside

# Of what a completion depends on, what changes no pass rate but by chance and rounding: `weights`
# tells the policy's.
NOT_THE_POLICY = ("engine", "batch_size", "samples", "seed", "trained")
RAREST = 0.05  # of right, or of wrong, completions for a problem set to be of use
SILENT = 0.6  # groups without signal beyond which most of the sampling is in vain
ROWS = 17  # of a histogram, at most
BAR = 40  # characters
MOST = 10**7  # completions of a probe, whose places are all held in memory


def starting_policy(recipe: Recipe) -> Contestant:
    """The policy that GRPO starts from, which samples as GRPO will.

    Raises:
        RecipeError: the warm start is not finished, or the engine lacks an option of the one that
            samples in training.
    """
    values = {key: setting(recipe, "grpo", key) for key in ("top_k", "min_p", "repetition_penalty")}
    values = {key: value for key, value in with_floats("grpo", values).items() if value is not None}
    more = setting(recipe, "grpo", "generation_kwargs") or {}
    by = "vllm" if setting(recipe, "grpo", "use_vllm") else "transformers"
    if more and recipe.evaluate.engine != by:
        message = (
            f"grpo.generation_kwargs are options of {by}: a probe needs evaluate.engine: {by} for"
            " them"
        )
        raise RecipeError([Fault(recipe.place("grpo", "generation_kwargs"), message)])
    asked = sampled_at(
        recipe, setting(recipe, "grpo", "temperature"), float(setting(recipe, "grpo", "top_p"))
    )
    sampling = dataclasses.replace(asked.evaluate.sampling(), more=values | more)
    return Contestant("completions", asked, warm_start_of(recipe), sampling=sampling)


def sampled_at(recipe: Recipe, temperature: float, top_p: float = 1.0) -> Recipe:
    """The recipe with an evaluation that samples so, and completions as long as GRPO's."""
    evaluate = dataclasses.replace(
        recipe.evaluate,
        temperature=float(temperature),
        top_p=top_p,
        max_new_tokens=setting(recipe, "grpo", "max_completion_length"),
        samples=1,  # `RepeatedAnswers` counts its own
        limit=None,
    )
    return dataclasses.replace(recipe, evaluate=evaluate)


def drawn(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]) -> list[int]:
    """Indices of the training rows whose prompts GRPO takes, in the order of the seed: the first so
    many are probed."""
    taken = set(map(id, rows_that_fit(recipe, memory.model_config(recipe), tokenizer, rows)))
    ids = [i for i, row in enumerate(rows) if id(row) in taken]
    random.Random(recipe.seed).shuffle(ids)
    return ids


class RepeatedAnswers(Answers):
    """The completions of a probe. A batch has one sample of each of its problems, in the order of
    the rows, so that more problems or more samples leave the batches that are there as they are."""

    def __init__(
        self,
        folder: Path,
        contestant: Contestant,
        tokenizer,
        rows: list[dict],
        problems: int,
        samples: int,
    ):
        self.samples, self.blocks = samples, -(-len(rows) // contestant.recipe.evaluate.batch_size)
        sampling = dataclasses.replace(contestant.sampling_or_default(), limit=problems)
        super().__init__(folder, contestant._replace(sampling=sampling), tokenizer, rows)

    def batches(self) -> dict[int, list[tuple[int, int]]]:
        size, problems = self.recipe.evaluate.batch_size, range(len(self.rows))
        return {
            sample * self.blocks + start // size: [
                (i, sample) for i in problems[start : start + size]
            ]
            for start in problems[::size]
            for sample in range(self.samples)
        }

    def right(self) -> list[int]:
        """How many samples of each problem are right; one that the verifier cannot judge is not."""
        right = {(each["id"], each["sample"]) for each in self.answers if each["right"] is True}
        counts = Counter(i for i, sample in right if sample < self.samples)
        return [counts[i] for i in range(len(self.rows))]

    def cost(self) -> dict:
        """Completions that are kept, their tokens, and the seconds of all batches, those that were
        lost too."""
        return {
            "completions": len(self.answers),
            "tokens": sum(each["tokens"] for each in self.answers),
            "seconds": sum(
                seconds for seconds, _ in batches(self.file.with_suffix(".seconds.jsonl"))
            ),
        }


def terms(contestant: Contestant, tokenizer: PreTrainedTokenizerBase, rows: list[dict]) -> dict:
    """What the pass rates of the training rows depend on. Weights are known by what is in them,
    which takes a second or so per GB: a run's folder may be copied, and its files are newer
    then."""
    system = contestant.recipe.prompt.system
    first = prompt.question_ids(tokenizer, rows[0]["problem"], system)
    of_answers = answer_settings(contestant, rows, first)
    folder = contestant.trained or Path(base_model(contestant.recipe))
    files = sorted(each for each in folder.glob("*.safetensors") if each.is_file())
    weights = [sha256(each) for each in files] or None  # None for a Hub id
    of_answers["dtype"] = contestant.recipe.model.dtype  # whatever the engine computes in
    return {key: value for key, value in of_answers.items() if key not in NOT_THE_POLICY} | {
        "weights": weights
    }


def write(folder: Path, terms: dict, answers: RepeatedAnswers, ids: list[int], group: int) -> dict:
    """Write `pass_rates.jsonl`, `pass_rates.png` and `summary.json`, and return the figures in the
    last.

    Args:
        ids: the index of each answered problem among the training rows.
        group: how many completions GRPO draws of a problem.
    """
    n, right = answers.samples, answers.right()
    bounds = [wilson(count, n) for count in range(n + 1)]
    lines = [terms | {"probed": len(right), "samples": n}]
    for i, asked, count in zip(ids, answers.rows, right, strict=True):
        line = {
            "id": i,
            "problem": asked["problem"],
            "right": count,
            "n": n,
            "pass_rate": count / n,
        }
        lines.append(line | {"interval_95": bounds[count]})
    figures = summary(right, n, group) | answers.cost()
    title = f"right completions, {len(right):,} problems × {n}"
    pictures.histogram(folder / "pass_rates.png", title, histogram(right, n))
    write_whole(
        folder / PASS_RATES, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    )
    write_whole(folder / "summary.json", json.dumps(figures, indent=2) + "\n")
    return figures


def summary(right: list[int], n: int, group: int) -> dict:
    """The figures of a probe, from how many of n completions of each problem are right. Intervals
    are over problems; the share of groups without signal needs n of a group or more."""
    shares = [count / n for count in right]
    figures = {"problems": len(right), "samples": n, "pass_rate": sum(shares) / len(shares)}
    figures |= {
        "pass_rate_interval_95": list(interval(shares)),
        "never_right": right.count(0) / len(right),
    }
    figures |= {"always_right": right.count(n) / len(right), "group": group}
    if n >= group:
        alike = [all_alike(n, count, group) for count in right]
        figures["groups_without_signal"] = sum(alike) / len(alike)
        figures["groups_without_signal_interval_95"] = list(interval(alike))
    return figures


def table(figures: dict, right: list[int], label: str) -> str:
    """The figures and a histogram of the pass rates, as Markdown."""
    n, group = figures["samples"], figures["group"]
    head = [
        f"probe (n = {figures['problems']:,} × {n})",
        "pass rate",
        "95% interval",
        "never right",
        "always right",
    ]
    head += [
        f"groups of {group} without signal",
        "95% interval",
        "completions",
        "tokens",
        "seconds",
    ]
    cells = [label, f"{figures['pass_rate']:.1%}", _from_to(figures["pass_rate_interval_95"])]
    cells += [f"{figures[key]:.1%}" for key in ("never_right", "always_right")]
    known = "groups_without_signal" in figures
    cells += [f"{figures['groups_without_signal']:.1%}" if known else f"needs --samples {group}"]
    cells += [_from_to(figures["groups_without_signal_interval_95"]) if known else ""]
    cells += [f"{figures[key]:,.0f}" for key in ("completions", "tokens", "seconds")]
    bins = histogram(right, n)
    most = max(count for _, count in bins)
    bars = [[name, f"{count:,}", "█" * math.ceil(BAR * count / most)] for name, count in bins]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], cells]
    return "\n".join(
        [
            *map(row, lines),
            "",
            *map(row, [["right", "problems", ""], ["---:", "---:", "---"], *bars]),
        ]
    )


def _from_to(bounds: list[float]) -> str:
    return f"{bounds[0]:.1%} to {bounds[1]:.1%}"


def histogram(right: list[int], n: int) -> list[tuple[str, int]]:
    """(name, number of problems) for each count of right completions, or for each tenth where there
    are many."""
    counts = Counter(right)
    if n < ROWS:
        return [(f"{count} of {n}", counts[count]) for count in range(n + 1)]
    tenths = Counter(min(10 * count // n, 9) for count in right)
    return [(f"{10 * tenth}% to {10 * tenth + 10}%", tenths[tenth]) for tenth in range(10)]


def change_before_grpo(figures: dict, right: list[int]) -> str | None:
    """What to change before GRPO, in words; None where the figures say nothing."""
    rate, n, silent = (
        figures["pass_rate"],
        figures["samples"],
        figures.get("groups_without_signal", 0.0),
    )
    if rate < RAREST:
        return (
            "nearly every completion is wrong: train a longer warm start, or take easier problems"
        )
    if rate > 1 - RAREST:
        return "nearly every completion is right: take harder problems"
    if silent > SILENT:
        lowest = math.floor(1000 / n) / 1000
        some = sum(0 < count < n for count in right)
        return (
            f"{silent:.0%} of groups of {figures['group']} would have no signal: data.pass_rate: "
            f"[{lowest:g}, {1 - lowest:g}] leaves the {some:,} problems that were solved sometimes"
        )
    return None


def chosen(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]) -> list[dict]:
    """The training rows that `data.pass_rate` leaves; where it is set, problems that were not
    probed are left out.

    Raises:
        RecipeError: the probe is of another policy, prompt, sampling or other problems, or no
            probe's, or no problem is left.
    """
    if recipe.data.pass_rate is None:
        return rows
    low, high = recipe.data.pass_rate
    file = recipe.stage_dir("probe") / PASS_RATES
    place = recipe.place("data", "pass_rate")
    if wrong := link_inside(file.parent):
        raise RecipeError([wrong])
    head, rates = read_pass_rates(file)
    here = terms(starting_policy(recipe), tokenizer, rows)
    if changed := [each for each in here if head.get(each) != here[each]]:
        message = (
            f"data.pass_rate: {file} was measured with different settings ({', '.join(changed)})"
        )
        raise RecipeError(
            [Fault(place, f"{message}: delete {file.parent}, and {make_command('probe', recipe)}")]
        )
    kept = [i for i in range(len(rows)) if low <= rates.get(i, -1) <= high]
    told = (
        f"{len(kept):,} of the {len(rates):,} problems that were probed (of {len(rows):,} in all)"
        " have a pass rate"
    )
    told += f" from {low:g} to {high:g}"
    if not kept:
        raise RecipeError([Fault(place, f"data.pass_rate: {told}")])
    say(f"data: {told}")
    return [rows[i] for i in kept]


def read_pass_rates(file: Path) -> tuple[dict, dict[int, float]]:
    """What the pass rates depend on, and the rates by the problems' index among the training rows.

    Raises:
        RecipeError: it is not what a probe wrote.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        head, *lines = all_lines(file)
        if not (_whole(head["probed"], 1) and _whole(head["samples"], 1)):
            raise ValueError("it was asked for no number of completions")
        rates = {}
        for line in lines:
            i, right, n = line["id"], line["right"], line["n"]
            if not (_whole(i, 0) and _whole(n, 1) and _whole(right, 0) and right <= n):
                raise ValueError("a line holds no pass rate")
            rates[i] = right / n
        if len(rates) != head["probed"]:
            raise ValueError("lines are missing")
        return head, rates
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise RecipeError(
            [f"{file} is not what a probe wrote ({type(error).__name__}): delete it"]
        ) from None


def _whole(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= 10**9
