"""The pages about a finished run: its card, and the report that a person reads first. Both are
written from the files in its folder alone. Names and texts in these files may be a stranger's: each
is checked, or stands where it can only be read as text.

The card's front matter is the Hub's (https://huggingface.co/docs/hub/model-cards), without
`model-index`, which has no place for an interval, and without any value that nobody has read.
"""

import io
import json
import re
from pathlib import Path

from huggingface_hub import ModelCardData
from ruamel.yaml import YAML

from console.faults import RecipeError
from console.terminal import clean, code, duration
from data import own
from data.prompt import messages, transcript
from data.sources import HUB
from evaluation import pictures
from evaluation.pages import page
from evaluation.report import benchmark, compare
from runs.files import has_weights, is_adapter, lock, write_whole
from runs.records import (
    evaluations,
    public,
    reduced,
    some_groups,
    title,
)
from runs.state import RunState
from schema.configs import ACCURACY, EVAL_CORRECT
from schema.names import RESERVED, name_and_arguments
from schema.settings import to_show, usual
from schema.stages import STAGES
from training.tiny_models import BUILDERS
from training.watch import PARTS, advice_on

HUB_ID = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"
# The data sets that grpo-recipes generates, and what they consist of.
GENERATED = {"arithmetic": "sums", "products": "products"}
QUESTION = "What is 47 + 85?"
# The stage that trained the model of a folder without a stage's name.
TRAINED_BY = {"merged": "grpo"}
# The keys of `grpo` in a report's first line.
GRPO_KEYS = ("max_steps", "num_generations", "learning_rate", "beta", "loss_type")
GRPO_KEYS += ("max_completion_length",)
# What a page shows at most of a text, and of a group.
CHARACTERS = 600
LINES = 12
COMPLETIONS = 8


def write(run: RunState) -> Path:
    """Write a finished run's card and, for a stage that samples, `report.md` and `curves.png`.
    Return the path of the page to read. Raises RecipeError where the run's folder is in use."""
    folder = run.folder
    if folder.name not in STAGES:
        raise RecipeError([f"{folder} is not called {' or '.join(STAGES)}, as a stage's folder is"])
    lock(folder)
    write_whole(folder / "README.md", model_card(run, folder.name))
    if not STAGES[folder.name].samples:
        return folder / "README.md"
    has_curves = pictures.curves(folder / "curves.png", run.metrics)
    write_whole(folder / "report.md", public(report(run, has_curves), folder))
    return folder / "report.md"


# What its files say -------------------------------------------------------------------------------


def on_hub(run: RunState) -> str | None:
    """The Hub id of the base model; None where it was built here or came from a folder."""
    name = run.section("model").get("name_or_path")
    if name is None or "model" in run.versions.get("local", []):
        return None
    if re.fullmatch(HUB_ID, name) and not Path(name).is_dir():
        return name
    return None


def base(run: RunState) -> dict:
    """The base model as `base.md` names it: a model of the Hub, one that grpo-recipes built, or a
    local folder."""
    model = run.section("model")
    build = model.get("build")
    about = ""
    if build in map(str, BUILDERS) and BUILDERS[build].__doc__:
        about = " ".join(BUILDERS[build].__doc__.split()).rstrip(".")
    folder = Path(str(model.get("name_or_path"))).name
    return {"hub_id": on_hub(run), "build": build, "about": about, "folder": folder}


def training_sets(run: RunState) -> list[tuple[str, dict]]:
    """(name, arguments) of each training set."""
    return list(map(name_and_arguments, run.section("data").get("train", [])))


def from_hub(run: RunState, name: str) -> tuple[str, str | None] | None:
    """(Hub id, licence or None) of a training set that was read from the Hub."""
    if name in run.versions.get("revisions", {}) and re.fullmatch(own.HUB_ID, name):
        return name, None
    if "data" in run.versions.get("local", []):
        return None
    return HUB.get(name)


def facts(run: RunState) -> dict:
    """The content of `facts.md`: what a run was trained on and what that cost."""
    sets = []
    for name, arguments in training_sets(run):
        text = str(reduced(name))
        if arguments:
            pairs = [f"{key}: {reduced(value)}" for key, value in arguments.items()]
            text += f" ({', '.join(pairs)})"
        sets.append({"name": text} | _origin(run, name))
    has_rejection_sampling = run.section("data").get("rejection_sampling") is not None
    return {
        "training_sets": sets,
        "has_rejection_sampling": bool(run.section("sft")) and has_rejection_sampling,
        "problems": run.problems,
        "effort": effort(run),
    }


def _origin(run: RunState, name: str) -> dict[str, str | None]:
    """Where a training set came from: its Hub id and licence, the Hub's set in whose form its files
    are, or what grpo-recipes generated. The user's own has none of them."""
    hub_id, licence = from_hub(run, name) or (None, None)
    form_of, _ = HUB.get(name) or (None, None)
    generated = GENERATED.get(name)
    return {"hub_id": hub_id, "licence": licence, "form_of": form_of, "generated": generated}


def effort(run: RunState) -> str:
    """The steps, the hardware and the time by part; empty where nothing is known."""
    words = []
    if "steps" in run.summary:
        words.append(f"{run.summary['steps']:,} steps")
    hardware = run.versions.get("hardware")
    if hardware:
        words.append(f"on {code(', '.join(hardware))}")
    spent = seconds(run)
    if spent is not None:
        words.append(f"in {duration(spent)}")
        shares = [f"{part} {share:.1%}" for part, share in _times(run, "share").items()]
        if shares:
            words[-1] += f": {', '.join(shares)}"
    return " ".join(words)


def seconds(run: RunState) -> float | None:
    """The seconds its training took. The sum of its parts also counts the time before a resumption,
    and is taken where the run has these parts."""
    parts = _times(run, "seconds")
    if parts:
        return sum(parts.values())
    return run.summary.get("seconds")


def _times(run: RunState, key: str) -> dict[str, float]:
    """Seconds or share of each part of the training that has them."""
    values = {}
    for part in PARTS:
        time = run.summary.get("time", {}).get(part, {})
        if key in time:
            values[part] = time[key]
    return values


def results(run: RunState, stage: str) -> list[dict]:
    """What `results.md` shows of each benchmark that was evaluated: its comparison, or why there is
    none. `stage`: the label of the run's answers."""
    comparisons = []
    for name, labels in evaluations(run.folder, stage).items():
        folder = run.folder.parent / "eval" / name
        finished = (folder / "summary.json").is_file()
        if finished and re.fullmatch(r"[\w.-]+", name) and stage in labels:
            comparisons.append({"name": name} | _result(folder, labels, run))
    return comparisons


def _result(folder: Path, labels: list[str], run: RunState) -> dict:
    """The comparison on one benchmark, or `why` the answers are not the run's."""
    try:
        models = compare(folder, labels)
    except ValueError:
        return {"why": "cannot be compared; `make report` says why."}
    terms = models[labels[-1]].terms
    if not has_weights(run.folder, terms):
        advice = "move them away, and `make evaluate` answers anew."
        return {"why": f"belong to other weights: {advice}"}
    return {
        "why": None,
        "comparison": page("benchmark.md", benchmark(folder, models)),
        "temperature": terms.get("temperature"),
        "max_new_tokens": terms.get("max_new_tokens"),
    }


# The card -----------------------------------------------------------------------------------------


def model_card(run: RunState, stage: str) -> str:
    """The card as Markdown, with the Hub's front matter. `stage`: the run's, or `merged`, for the
    model that was made of its adapter."""
    was_adapter = is_adapter(run.folder)
    has_adapter = was_adapter and stage != "merged"
    path = run.public_path.with_name(stage)
    recipe = io.StringIO()
    YAML().dump(reduced(run.recipe), recipe)
    content = {
        "front_matter": front_matter(run, stage).to_yaml(),
        "title": title(path),
        "has_adapter": has_adapter,
        "method": _method(run, stage),
        "base": base(run),
        "usage": usage(run, path),
        "is_base_quantised": has_adapter and bool(run.section("quantization")),
        "is_merged": was_adapter and not has_adapter,
        "results": results(run, TRAINED_BY.get(stage, stage)),
        "recipe": recipe.getvalue(),
        "versions": json.dumps(run.versions, indent=2),
    }
    return page("card.md", content | facts(run))


def _method(run: RunState, stage: str) -> str:
    """How the model was trained, as a card says it."""
    trained = STAGES[TRAINED_BY.get(stage, stage)]
    method = trained.title
    if trained.warm_start and run.section("sft"):
        method += " after an SFT warm start"
    if stage == "merged" and is_adapter(run.folder):
        method += ", its adapter merged in"
    return method


def front_matter(run: RunState, stage: str) -> ModelCardData:
    """The fields by which the Hub lists a model. To the Hub a merge is one of several models, so a
    model with its adapter merged in is a finetune."""
    has_adapter = stage != "merged" and is_adapter(run.folder)
    fields = {"library_name": "transformers", "tags": ["trl", TRAINED_BY.get(stage, stage)]}
    relation = "finetune"
    if has_adapter:
        fields = {"library_name": "peft", "tags": ["trl", stage, "lora"]}
        relation = "adapter"
    if on_hub(run):
        fields |= {"base_model": on_hub(run), "base_model_relation": relation}
    sources = [from_hub(run, name) for name, _ in training_sets(run)]
    datasets = [source[0] for source in filter(None, sources)]
    return ModelCardData(**fields, datasets=datasets or None, pipeline_tag="text-generation")


def usage(run: RunState, path: Path) -> str:
    """Three lines of Python that load the model, or the adapter with its base, and ask it a
    question greedily. An adapter's base may have no tokenizer with a chat template."""
    system = run.section("prompt").get("system")
    grpo = usual("grpo") | run.section("grpo")
    limit = run.section("evaluate").get("max_new_tokens") or grpo["max_completion_length"]
    dtype = run.section("model").get("dtype", "auto")
    name = repr(path.as_posix())
    options = f"max_new_tokens={limit}, do_sample=False, repetition_penalty=1.0"
    options += ", eos_token_id=ask.tokenizer.eos_token_id, return_full_text=False"
    loaded = f"'text-generation', {name}, tokenizer={name}, dtype={dtype!r}"
    return (
        "from transformers import pipeline\n"
        f"ask = pipeline({loaded})  # its folder, or its id on the Hub\n"
        f"print(ask({messages(QUESTION, system)}, {options})[0]['generated_text'])\n"
    )


# The report ---------------------------------------------------------------------------------------


def report(run: RunState, has_curves: bool) -> str:
    """The page as Markdown."""
    content = {
        "title": title(run.public_path),
        "recipe": recipe_line(run),
        "base": base(run),
        "results": results(run, "grpo"),
        "advice": advice_on(run.metrics, run.recipe, True),
        "has_curves": has_curves,
        "has_interval": any(EVAL_CORRECT in line for line in run.metrics),
        "groups": list(map(group, some_groups(run.folder))),
    }
    return page("run.md", content | facts(run) | happened(run))


def recipe_line(run: RunState) -> dict:
    """What its stages set, and the weights of its rewards."""
    grpo = to_show("grpo", run.section("grpo"))
    sft = run.section("sft")
    rewards = run.section("rewards")
    weights = {name: rewards[name].get("weight", 1.0) for name in rewards}
    return {
        "is_adapter": is_adapter(run.folder),
        "adapter": run.section("adapter"),
        "sft": sft,
        "grpo": {key: grpo[key] for key in GRPO_KEYS if key in grpo},
        "weights": weights,
    }


def happened(run: RunState) -> dict:
    """How the run ended and what is unusual about it."""
    summary = run.summary
    steps = summary.get("steps")
    max_steps = run.section("grpo").get("max_steps")
    ended_early = steps is not None and max_steps is not None and 0 < steps < max_steps
    best = None
    if "best_checkpoint" in summary and "best_accuracy" in summary:
        accuracies = [line[ACCURACY] for line in run.metrics if ACCURACY in line]
        best = {
            "checkpoint": summary["best_checkpoint"].rpartition("/")[2],
            "accuracy": summary["best_accuracy"],
            "last": accuracies[-1] if accuracies else None,
        }
    return {
        "steps": steps,
        "max_steps": max_steps if ended_early else None,
        "stopped": summary.get("stopped"),
        "resumed_from": summary.get("resumed_from"),
        "best": best,
        "adapter_error": summary.get("adapter_error"),
    }


def group(rows: list[dict]) -> dict:
    """A group to read: its question and completions."""
    step = rows[0]["step"]
    completions = []
    for row in rows[:COMPLETIONS]:
        text = shortened(transcript(row["completion"]))
        completions.append({"scores": _scores(row), "text": text})
    return {
        "step": step,
        "size": len(rows),
        "question": shortened(rows[0]["prompt"]),
        "gold": rows[0]["gold"],
        "completions": completions,
    }


def _scores(row: dict) -> list[str]:
    """The rewards of a completion, its length and its advantage, as Markdown."""
    parts = []
    for name, score in row.items():
        if name in RESERVED:
            continue
        if score is None:
            parts.append(f"{code(name, 60)} none")
        elif type(score) in (int, float):
            parts.append(f"{code(name, 60)} {score:.3g}")
    if "tokens" in row:
        parts.append(f"{row['tokens']} tokens")
    if row.get("truncated") is True:
        parts.append("truncated")
    parts.append(f"advantage {row['advantage']:+.3g}")
    return parts


def shortened(message: object) -> str:
    """A prompt's last turn or a completion; a long one without its middle."""
    if isinstance(message, list) and message and isinstance(message[-1], dict):
        message = message[-1].get("content")
    text = clean(str(message))
    if len(text) > CHARACTERS:
        text = f"{text[: CHARACTERS // 2]} … {text[-CHARACTERS // 2 :]}"
    lines = text.split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "…", *lines[-LINES // 2 :]]
    return "\n".join(lines)
