"""The pages about a finished run: its card, and the report that a person reads first. Both are
written from the files in its folder alone. Names and texts in these files may be a stranger's: each
is checked, or stands where it can only be read as text.

The card's front matter is the Hub's (https://huggingface.co/docs/hub/model-cards), without
`model-index`, which has no place for an interval, and without any value that nobody has read.
"""

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import ModelCardData
from ruamel.yaml import YAML

from console.faults import RecipeError
from console.terminal import clean, code, duration, fenced
from data import own
from data.prompt import messages, transcript
from data.sources import HUB
from evaluation import pictures
from evaluation.report import compare, table_and_verdicts
from runs.files import has_weights, is_adapter, write_whole
from runs.lock import lock
from runs.records import (
    Run,
    evaluations,
    has_type,
    public,
    read_run,
    reduced,
    section,
    some_groups,
    texts,
    title,
)
from schema import configs
from schema.configs import ACCURACY, RIGHT
from schema.names import RESERVED, name_and_arguments
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


def write(folder: Path) -> Path:
    """Write a finished run's card and, for a stage that samples, `report.md` and `curves.png`.
    Return the path of the page to read. Raises RecipeError where the folder holds no finished run,
    or is in use."""
    if folder.name not in STAGES:
        raise RecipeError([f"{folder} is not called {' or '.join(STAGES)}, as a stage's folder is"])
    run = read_run(folder)
    lock(folder)
    write_whole(folder / "README.md", model_card(run, folder.name))
    if not STAGES[folder.name].samples:
        return folder / "README.md"
    has_curves = pictures.curves(folder / "curves.png", run.metrics)
    write_whole(folder / "report.md", public(report(run, has_curves), folder))
    return folder / "report.md"


# What its files say -------------------------------------------------------------------------------


def on_hub(run: Run) -> str | None:
    """The Hub id of the base model; None where it was built here or came from a folder."""
    name = run.section("model").get("name_or_path")
    if run.section("model").get("build") is not None or "model" in texts(run.versions.get("local")):
        return None
    if isinstance(name, str) and re.fullmatch(HUB_ID, name) and not Path(name).is_dir():
        return name
    return None


def base(run: Run) -> str:
    """The base model: a model of the Hub, one that grpo-recipes built, or a local folder."""
    name = on_hub(run)
    if name:
        return f"[{name}](https://huggingface.co/{name})"
    model = run.section("model")
    build = model.get("build")
    if build is None:
        return f"{code(Path(str(model.get('name_or_path'))).name)}, a local folder"
    text = f"{code(build)}, built by grpo-recipes"
    if build in map(str, BUILDERS) and BUILDERS[build].__doc__:
        text += f". {BUILDERS[build].__doc__.rstrip('.')}"
    return text


def training_sets(run: Run) -> list[tuple[str, dict]]:
    """(name, arguments) of each training set."""
    train = run.section("data").get("train")
    sets = []
    if isinstance(train, list):
        for entry in train:
            if entry and isinstance(entry, str | dict):
                name, arguments = name_and_arguments(entry)
                sets.append((str(name), arguments if isinstance(arguments, dict) else {}))
    return sets


def from_hub(run: Run, name: str) -> tuple[str, str | None] | None:
    """(Hub id, licence or None) of a training set that was read from the Hub."""
    local = run.section("data").get("dir") is not None or "data" in texts(run.versions.get("local"))
    revisions = run.versions.get("revisions")
    if isinstance(revisions, dict) and name in revisions and re.fullmatch(own.HUB_ID, name):
        return name, None
    if local:
        return None
    return HUB.get(name)


def facts(run: Run) -> list[str]:
    """What a run was trained on and what that cost: a line for each training set and for the
    model's own solutions, the number of problems, and the effort."""
    lines = []
    for name, arguments in training_sets(run):
        text = reduced(name)
        if arguments:
            pairs = [f"{key}: {reduced(value)}" for key, value in arguments.items()]
            text += f" ({', '.join(pairs)})"
        lines.append(f"{code(text)}: {_origin(run, name)}")
    if run.section("sft") and run.section("data").get("own_solutions") is not None:
        lines.append("for the warm start the base model's own right solutions")
    if run.problems is not None:
        lines.append(f"{run.problems:,} training problems")
    words = effort(run)
    if words:
        lines.append(words)
    return lines


def _origin(run: Run, name: str) -> str:
    """Where a training set came from."""
    source = from_hub(run, name)
    if source:
        hub_id, licence = source
        by_card = f", licence {licence} by its card" if licence else ""
        return f"[{hub_id}](https://huggingface.co/datasets/{hub_id}){by_card}"
    if name in HUB:
        return f"parquet files in a local folder, in the form of {HUB[name][0]}"
    if name in GENERATED:
        return f"{GENERATED[name]} made by grpo-recipes"
    return "the user's own"


def effort(run: Run) -> str:
    """The steps, the hardware and the time by part; empty where nothing is known."""
    words = []
    if "steps" in run.summary:
        words.append(f"{run.summary['steps']:,} steps")
    hardware = texts(run.versions.get("hardware"))
    if hardware:
        words.append(f"on {code(', '.join(hardware))}")
    spent = seconds(run)
    if spent is not None:
        words.append(f"in {duration(spent)}")
        shares = [f"{part} {share:.1%}" for part, share in _times(run, "share").items()]
        if shares:
            words[-1] += f": {', '.join(shares)}"
    return " ".join(words)


def seconds(run: Run) -> float | None:
    """The seconds its training took. The sum of its parts also counts the time before a resumption,
    and is taken where the run has these parts."""
    parts = _times(run, "seconds")
    if parts:
        return sum(parts.values())
    return run.summary.get("seconds")


def _times(run: Run, key: str) -> dict[str, float]:
    """Seconds or share of each part of the training that has them."""
    values = {}
    for part in PARTS:
        value = section(run.summary.get("time", {}), part).get(key)
        if has_type(value, float):
            values[part] = value
    return values


def results(run: Run, stage: str) -> list[str]:
    """Table, intervals and verdicts of each benchmark that was evaluated, in Markdown; empty where
    there is none. `stage`: the label of the run's answers."""
    lines = []
    for benchmark, labels in evaluations(run.folder, stage).items():
        folder = run.folder.parent / "eval" / benchmark
        finished = (folder / "summary.json").is_file()
        if finished and re.fullmatch(r"[\w.-]+", benchmark) and stage in labels:
            lines += ["", *_results_on(folder, labels, run)]
    return lines[1:]


def _results_on(folder: Path, labels: list[str], run: Run) -> list[str]:
    """The lines of `results` for one benchmark; a sentence where the answers are not the run's."""
    answers = f"The answers in `eval/{folder.name}`"
    try:
        models = compare(folder, labels)
    except ValueError:
        return [f"{answers} cannot be compared; `make report` says why."]
    terms = models[labels[-1]].terms
    if not has_weights(run.folder, terms):
        return [
            f"{answers} belong to other weights: move them away, and `make evaluate` answers anew."
        ]
    sampling = "Greedy"
    if terms.get("temperature") != 0:
        sampling = f"Temperature {code(terms.get('temperature'))}"
    limit = code(terms.get("max_new_tokens"))
    note = f"{sampling}, at most {limit} tokens an answer."
    return [*table_and_verdicts(folder, models), "", note]


# The card -----------------------------------------------------------------------------------------


def model_card(run: Run, stage: str) -> str:
    """The card as Markdown, with the Hub's front matter. `stage`: the run's, or `merged`, for the
    model that was made of its adapter."""
    was_adapter = is_adapter(run.folder)
    has_adapter = was_adapter and stage != "merged"
    path = run.public_path.with_name(stage)
    kind = "A LoRA adapter" if has_adapter else "A model"
    lines = ["---", front_matter(run, stage).to_yaml(), "---", "", f"# {title(path)}", ""]
    lines += [f"{kind} for mathematics, made by {_method(run, stage)}.", ""]
    lines += [f"Base: {base(run)}. The licence of the base applies.", ""]
    lines += ["## How is it asked?", "", *fenced(usage(run, path), "python")]
    if has_adapter and run.section("quantization"):
        lines += ["", "It was trained on a quantised base, which these lines load unquantised."]
    lines += ["", "## How good is it?", ""]
    measured = results(run, TRAINED_BY.get(stage, stage))
    if measured and was_adapter and not has_adapter:
        lines += ["Measured before the adapter was merged.", ""]
    lines += measured or ["It was not evaluated: nothing is known of its accuracy."]
    lines += ["", "## How was it made?", "", *bullets(facts(run))]
    recipe = io.StringIO()
    YAML().dump(reduced(run.recipe), recipe)
    lines += ["", "`recipe.yaml`", "", *fenced(recipe.getvalue(), "yaml")]
    lines += ["", "`versions.json`", "", *fenced(json.dumps(run.versions, indent=2), "json")]
    return "\n".join(lines) + "\n"


def _method(run: Run, stage: str) -> str:
    """How the model was trained, as a card says it."""
    trained = STAGES[TRAINED_BY.get(stage, stage)]
    method = trained.title
    if trained.warm_start and run.section("sft"):
        method += " after an SFT warm start"
    if stage == "merged" and is_adapter(run.folder):
        method += ", its adapter merged in"
    return method


def front_matter(run: Run, stage: str) -> ModelCardData:
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


def usage(run: Run, path: Path) -> str:
    """Three lines of Python that load the model, or the adapter with its base, and ask it a
    question greedily. An adapter's base may have no tokenizer with a chat template."""
    system = run.section("prompt").get("system")
    if not isinstance(system, str):
        system = None
    limit = run.section("evaluate").get("max_new_tokens")
    if type(limit) is not int:
        limit = run.section("grpo").get("max_completion_length")
    if type(limit) is not int:
        limit = configs.fields("grpo")["max_completion_length"].default
    dtype = run.section("model").get("dtype")
    if not isinstance(dtype, str):
        dtype = "auto"
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


def report(run: Run, has_curves: bool) -> str:
    """The page as Markdown."""
    lines = [f"# {title(run.public_path)}", "", f"- recipe: {recipe_line(run)}"]
    lines += bullets([f"base: {base(run)}", *facts(run)])
    lines += ["", "## How good is it?", ""]
    lines += results(run, "grpo") or ["It was not evaluated."]
    lines += ["", "## What happened?", "", *bullets(happened(run))]
    advice = advice_on(run.metrics, run.recipe, True)
    if advice:
        lines += ["", "## What is there to look at?", ""]
        lines += bullets(code(sentence, 1000) for sentence in advice)
    if has_curves:
        lines += ["", "## How did it learn?", "", "![curves over the steps](curves.png)"]
    if any(RIGHT in line for line in run.metrics):
        lines += ["", "The band around held-out accuracy is its 95% interval."]
    for rows in some_groups(run.folder):
        lines += ["", *group(rows)]
    return "\n".join(lines) + "\n"


def bullets(sentences: Iterable[str]) -> list[str]:
    return [f"- {sentence}" for sentence in sentences]


def recipe_line(run: Run) -> str:
    """The recipe in one line: what its stages set, and the weights of its rewards."""
    grpo = run.section("grpo")
    sft = run.section("sft")
    parts = []
    if is_adapter(run.folder):
        parts.append("LoRA")
        if "r" in run.section("adapter"):
            parts[-1] += f" (r {code(run.section('adapter')['r'])})"
    if sft:
        parts.append(f"SFT warm start of {code(sft.get('max_steps'))} steps")
    settings = [f"{key} {code(grpo[key])}" for key in GRPO_KEYS if key in grpo]
    parts.append(f"GRPO ({', '.join(settings)})")
    rewards = run.section("rewards")
    for name in rewards:
        parts.append(f"{code(name)} × {code(section(rewards, name).get('weight', 1.0))}")
    return ", ".join(parts)


def happened(run: Run) -> list[str]:
    """How the run ended and what is unusual about it, a sentence each."""
    summary = run.summary
    steps = summary.get("steps")
    max_steps = run.section("grpo").get("max_steps")
    lines = []
    if steps is not None and has_type(max_steps, int) and 0 < steps < max_steps:
        lines.append(f"It ended at step {steps:,} of {max_steps:,}.")
    elif steps is not None:
        lines.append(f"It ran to its end, step {steps:,}.")
    if "stopped" in summary:
        lines.append(code(summary["stopped"], 600))
    if "resumed_from" in summary:
        lines.append(f"It was interrupted, and resumed from {code(summary['resumed_from'])}.")
    if "best_checkpoint" in summary and "best_accuracy" in summary:
        best = code(summary["best_checkpoint"].rpartition("/")[2])
        sentence = f"It kept {best}, whose held-out accuracy is {summary['best_accuracy']:.1%}"
        accuracies = [line[ACCURACY] for line in run.metrics if ACCURACY in line]
        if accuracies:
            sentence += f"; at the last evaluation it was {accuracies[-1]:.1%}"
        lines.append(f"{sentence}.")
    if "adapter_error" in summary:
        lines.append(
            "The saved adapter on a clean base gives the trained policy's log-probabilities within"
            f" {summary['adapter_error']:.2g} nats a token."
        )
    return lines


def group(rows: list[dict]) -> list[str]:
    """A group to read, as Markdown: its question and completions."""
    step = rows[0]["step"]
    head = f"## A group of step {step if has_type(step, int) else '?'}"
    if len(rows) > COMPLETIONS:
        head += f", {COMPLETIONS} of its {len(rows)} completions"
    lines = [head, "", *shortened(rows[0]["prompt"]), "", f"gold {code(rows[0]['gold'])}"]
    for number, row in enumerate(rows[:COMPLETIONS], 1):
        completion = shortened(transcript(row["completion"]))
        lines += ["", f"{number}. {', '.join(_scores(row))}", "", *completion]
    return lines


def _scores(row: dict) -> list[str]:
    """The rewards of a completion, its length and its advantage."""
    parts = []
    for name, score in row.items():
        if name in RESERVED:
            continue
        if score is None:
            parts.append(f"{code(name, 60)} none")
        elif has_type(score, float):
            parts.append(f"{code(name, 60)} {score:.3g}")
    if has_type(row.get("tokens"), int):
        parts.append(f"{row['tokens']} tokens")
    if row.get("truncated") is True:
        parts.append("truncated")
    if has_type(row["advantage"], float):
        parts.append(f"advantage {row['advantage']:+.3g}")
    return parts


def shortened(message: object) -> list[str]:
    """A prompt's last turn or a completion, as a block of code; a long one without its middle."""
    if isinstance(message, list) and message and isinstance(message[-1], dict):
        message = message[-1].get("content")
    text = clean(str(message))
    if len(text) > CHARACTERS:
        text = f"{text[: CHARACTERS // 2]} … {text[-CHARACTERS // 2 :]}"
    lines = text.split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "…", *lines[-LINES // 2 :]]
    return fenced("\n".join(lines))
