"""The pages about a finished run: its card, and the report that a person reads first. Both are made
from the files in its folder alone, and can be made again at any time. Names and texts in these may
be a stranger's, so each is checked, or stands where it is only text.

The card says what made the model and what it reaches; those of trl and peft say "fine-tuned version
of None". Its front matter is the Hub's (https://huggingface.co/docs/hub/model-cards) without
`model-index`, which has no place for an interval. A field whose value nobody has read is left out.
"""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData, try_to_load_from_cache
from ruamel.yaml import YAML

from data import own
from data.json_files import read_object
from data.prompt import messages, transcript
from data.sources import HUB
from evaluation import pictures
from evaluation.report import compare
from runs.folder import (
    LABELS,
    FinishedRun,
    is_of,
    read_metrics,
    read_run,
    some_groups,
    texts,
    title,
    weights_of,
)
from schema import configs
from schema.configs import ACCURACY, RIGHT
from schema.faults import RecipeError
from schema.models import BUILDERS
from schema.names import RESERVED, named
from schema.stages import STAGES, algorithm
from schema.terminal import clean, code, duration, fenced
from schema.text import LARGEST, Unreadable, value_of
from training.checkpoints import is_adapter, write_whole
from training.watch import PARTS, findings
from training.writing import link_inside, lock

HUB_ID = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"
# The data sets that are made on the spot, and what they are.
GENERATED = {"arithmetic": "sums", "countdown": "problems", "products": "products"}
QUESTION = "What is 47 + 85?"
# Of what a run sampled, as much as can be read: characters of a text, lines of it, completions of a
# group.
CHARACTERS, LINES, COMPLETIONS = 600, 12, 8


def write(folder: Path) -> Path:
    """Write a finished run's card and, where it is GRPO's, `report.md` and `curves.png`, and return
    the path of what to read.

    Raises:
        RecipeError: the folder holds no finished run, is in use, or has a link in it.
    """
    if folder.name not in STAGES:
        raise RecipeError([f"{folder} is not called {' or '.join(STAGES)}, as a stage's folder is"])
    if wrong := link_inside(folder):
        raise RecipeError([wrong])
    run = read_run(folder)
    lock(folder)
    write_whole(folder / "README.md", card(run, folder.name))
    if not STAGES[folder.name].samples:
        return folder / "README.md"
    metrics = read_metrics(folder)
    advice = [f"step {each.step}: {each.message}" for each in findings(metrics, run.recipe)]
    drawn = pictures.curves(folder / "curves.png", metrics)
    write_whole(folder / "report.md", report(run, metrics, drawn, advice))
    return folder / "report.md"


# What its files say -------------------------------------------------------------------------------


def reduced(value: Any) -> Any:
    """A value of a recipe with each absolute path as its last name. A prompt is no path."""
    if isinstance(value, dict):
        return {
            reduced(key): each if key in ("system", "chat_template") else reduced(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [reduced(each) for each in value]
    is_path = isinstance(value, str) and re.match(r"[/~\\]|[A-Za-z]:[/\\]", value)
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1] if is_path else value


def on_hub(run: FinishedRun) -> str | None:
    """The Hub id of the base model; None where it was built here or came from a folder."""
    name = run.section("model").get("name_or_path")
    if run.section("model").get("build") is not None or "model" in texts(run.versions.get("local")):
        return None
    is_id = isinstance(name, str) and re.fullmatch(HUB_ID, name) and not Path(name).is_dir()
    return name if is_id else None


def base(run: FinishedRun) -> str:
    """The base model, as what it is."""
    model = run.section("model")
    if name := on_hub(run):
        return f"[{name}](https://huggingface.co/{name})"
    if (build := model.get("build")) is not None:
        what = BUILDERS[build].__doc__ if build in map(str, BUILDERS) else None
        return f"{code(build)}, built by grpo-recipes" + (f". {what.rstrip('.')}" if what else "")
    return f"{code(Path(str(model.get('name_or_path'))).name)}, a local folder"


def training_sets(run: FinishedRun) -> list[tuple[str, dict]]:
    """Name and arguments of each."""
    train = run.section("data").get("train")
    entries = train if isinstance(train, list) else []
    found = [
        named(each)
        for each in entries
        if isinstance(each, str) or (isinstance(each, dict) and each)
    ]
    return [
        (str(name), arguments if isinstance(arguments, dict) else {}) for name, arguments in found
    ]


def from_hub(run: FinishedRun, name: str) -> tuple[str, str | None] | None:
    """(Hub id, licence or None) of a training set that was read from there."""
    local = run.section("data").get("dir") is not None or "data" in texts(run.versions.get("local"))
    revisions = run.versions.get("revisions")
    if isinstance(revisions, dict) and name in revisions and re.fullmatch(own.HUB_ID, name):
        return name, None
    return None if local else HUB.get(name)


def data(run: FinishedRun) -> list[str]:
    """A line for each training set, and one for what the warm start learned from where that was the
    model's own."""
    lines = []
    for name, arguments in training_sets(run):
        given = (
            f" ({', '.join(f'{key}: {reduced(value)}' for key, value in arguments.items())})"
            if arguments
            else ""
        )
        lines.append(f"{code(reduced(name) + given)}: {_origin(run, name)}")
    if run.section("sft") and run.section("data").get("own_solutions") is not None:
        lines.append(
            f"for the warm start the base model's own right solutions{_own_solutions(run)}"
        )
    return lines


def _origin(run: FinishedRun, name: str) -> str:
    if found := from_hub(run, name):
        hub_id, licence = found
        by_card = f", licence {licence} by its card" if licence else ""
        return f"[{hub_id}](https://huggingface.co/datasets/{hub_id}){by_card}"
    if name in HUB:
        return f"parquet files in a local folder, in the form of {HUB[name][0]}"
    if name in GENERATED:
        return f"{GENERATED[name]} made by grpo-recipes"
    if name.endswith(own.FILE_TYPES) or not re.fullmatch(r"\w+(\.\w+)+", name):
        return "a local file" if name.endswith(own.FILE_TYPES) else "local files"
    return "a function of the user's own"


def _own_solutions(run: FinishedRun) -> str:
    """How many there were, by the warm start's own summary; nothing where that does not say."""
    figures = (read_object(run.folder.with_name("sft") / "summary.json") or {}).get("own_solutions")
    keys = ("completions", "problems", "accepted", "solved", "kept")
    if not isinstance(figures, dict) or not all(is_of(figures.get(key), int) for key in keys):
        return ""
    return f": {accepted_of(figures)}"


def accepted_of(figures: dict) -> str:
    """How many of a model's own solutions a warm start learns from, as half a sentence."""
    of = "of {completions:,} completions of {problems:,} problems {accepted:,} are accepted"
    return (of + ", for {solved:,} problems, and {kept:,} kept").format(**figures)


def of_steps(run: FinishedRun) -> list[str]:
    """A line for each reward of steps."""
    lines = []
    for name, options in run.section("rewards").items() if run.folder.name != "sft" else ():
        if isinstance(options, dict) and "steps" in options:
            between = code(json.dumps(options["steps"], ensure_ascii=False))
            lines.append(
                f"process supervision: {code(name)} was given for each step, with {between} between"
                " two steps"
            )
    return lines


def effort(run: FinishedRun) -> str:
    """Steps, hardware, and the time by part."""
    summary, words = run.summary, []
    if "steps" in summary:
        words.append(f"{summary['steps']:,} steps")
    if hardware := texts(run.versions.get("hardware")):
        words.append(f"on {code(', '.join(hardware))}")
    if (spent := seconds(run)) is not None:
        parts = ", ".join(f"{part} {share:.1%}" for part, share in _times(run, "share").items())
        words.append(f"in {duration(spent)}" + (f": {parts}" if parts else ""))
    return " ".join(words)


def seconds(run: FinishedRun) -> float | None:
    """What its training took: the sum of its parts, which counts what came before a resumption,
    where it has them."""
    parts = _times(run, "seconds")
    return sum(parts.values()) if parts else run.summary.get("seconds")


def _times(run: FinishedRun, key: str) -> dict[str, float]:
    """Seconds or share of each part of the training that has them."""
    time = run.summary.get("time", {})
    found = {part: time[part].get(key) for part in PARTS if isinstance(time.get(part), dict)}
    return {part: value for part, value in found.items() if is_of(value, float)}


def results(run: FinishedRun, stage: str) -> list[str]:
    """Table, intervals and verdicts of each benchmark that the run's weights have answered, in
    Markdown; empty where there is none. Answers of other weights are not this run's, and are named
    as such.

    Args:
        stage: the label of the run's answers.
    """
    lines, order = [], LABELS[: LABELS.index(stage) + 1]
    folders = [each.parent for each in run.folder.parent.glob(f"eval/*/{stage}.jsonl")]
    for folder in sorted(folders, key=lambda each: (each.name != "held-out", each.name)):
        finished = (folder / "summary.json").is_file() and not link_inside(folder)
        if not finished or not re.fullmatch(r"[\w.-]+", folder.name):
            continue
        labels = [label for label in order if (folder / f"{label}.jsonl").is_file()]
        try:
            comparison = compare(folder, labels)
        except ValueError:
            lines += [
                f"The answers in `eval/{folder.name}` cannot be compared; `make report` says why.",
                "",
            ]
            continue
        terms = comparison.terms[stage]
        if terms.get("weights") != weights_of(run.folder):
            others = (
                "belong to other weights, or to these before the folder was copied: `make evaluate`"
                " answers anew"
            )
            lines += [f"The answers in `eval/{folder.name}` {others}.", ""]
            continue
        how = (
            "greedy"
            if terms.get("temperature") == 0
            else f"temperature {code(terms.get('temperature'))}"
        )
        limit = code(terms.get("max_new_tokens"))
        lines += [
            *comparison.table,
            "",
            f"{how.capitalize()}, at most {limit} tokens an answer.",
            "",
        ]
    return lines[:-1]


# The card -----------------------------------------------------------------------------------------


def card(run: FinishedRun, stage: str) -> str:
    """The card as Markdown, with the Hub's front matter. `stage`: the run's, or `merged`, for the
    model that was made of its adapter."""
    adapter = stage != "merged" and is_adapter(run.folder)
    path = run.path.with_name("merged") if stage == "merged" else run.path
    licence = licence_of_base(run)
    lines = ["---", front_matter(run, stage, licence).to_yaml(), "---", "", f"# {title(path)}", ""]
    was_merged = stage == "merged" and is_adapter(run.folder)
    kind = "A LoRA adapter" if adapter else "A model"
    trained = STAGES["grpo" if stage == "merged" else stage]
    made = algorithm(run.recipe.get("algorithm")).made if trained.name == "grpo" else trained.made
    made += " after an SFT warm start" if trained.warm_start and run.section("sft") else ""
    lines += [
        f"{kind} for mathematics, made by {made}{', its adapter merged in' if was_merged else ''}.",
        "",
    ]
    named = (
        f", {code(licence)} by its card, applies" if licence else " applies; no file here names it"
    )
    lines += [f"Base: {base(run)}. The licence of the base{named}.", ""]
    lines += ["## How is it asked?", "", *fenced(usage(run, path), "python")]
    if adapter and run.section("quantization"):
        lines += ["", "It was trained on a quantised base, which these lines load unquantised."]
    lines += ["", "## How good is it?", ""]
    found = results(run, trained.name)
    if was_merged and found:
        lines += ["Measured before the adapter was merged.", ""]
    lines += found or ["It was not evaluated: nothing is known of its accuracy."]
    lines += ["", "## How was it made?", "", *(f"- {each}" for each in data(run))]
    lines += [f"- {run.problems:,} training problems"] if run.problems is not None else []
    lines += [f"- {each}" for each in of_steps(run)]
    lines += [f"- {words}"] if (words := effort(run)) else []
    text = io.StringIO()
    YAML().dump(reduced(run.recipe), text)
    lines += ["", "`recipe.yaml`", "", *fenced(text.getvalue(), "yaml")]
    lines += ["", "`versions.json`", "", *fenced(json.dumps(run.versions, indent=2), "json")]
    return "\n".join(lines) + "\n"


def front_matter(run: FinishedRun, stage: str, licence: str | None) -> ModelCardData:
    """What the Hub lists a model by. To the Hub a merge is one of several models, so a model with
    its adapter merged in is a finetune."""
    adapter = stage != "merged" and is_adapter(run.folder)
    names = [name for name, _ in training_sets(run)]
    hub = [found[0] for name in names if (found := from_hub(run, name))]
    # Of the sets that are known to be English: a file by the name of one may not be.
    english = names and all(
        name in GENERATED or (name in HUB and from_hub(run, name)) for name in names
    )
    return ModelCardData(
        base_model=on_hub(run),
        base_model_relation=("adapter" if adapter else "finetune") if on_hub(run) else None,
        datasets=hub or None,
        language="en" if english else None,
        license=licence,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["trl", "grpo" if stage == "merged" else stage, *(["lora"] if adapter else [])],
    )


def licence_of_base(run: FinishedRun) -> str | None:
    """The licence that the base model's own card names, where that card is on this machine: beside
    the model, or in the Hub's cache."""
    model = run.section("model")
    if hub_id := on_hub(run):
        revision = model.get("revision")
        found = try_to_load_from_cache(
            hub_id, "README.md", revision=revision if isinstance(revision, str) else None
        )
    else:
        found = (
            Path(model["name_or_path"]) / "README.md"
            if isinstance(model.get("name_or_path"), str)
            else None
        )
    try:
        if not Path(found).is_file():  # a pipe would wait for ever
            return None
        with Path(found).open(encoding="utf-8") as file:
            matter = re.match(r"---\n(.*?)\n---\n", file.read(LARGEST), re.DOTALL)
        licence = value_of(matter[1])["license"]
    except (OSError, UnicodeDecodeError, Unreadable, TypeError, LookupError):
        return None
    # One that the Hub calls "other" has a name and a link, which belong to the base's own card.
    known = (
        isinstance(licence, str) and re.fullmatch(r"[a-z0-9.-]+", licence) and licence != "other"
    )
    return licence if known else None


def usage(run: FinishedRun, path: Path) -> str:
    """Three lines of Python that load the model, or the adapter with its base, and ask it a
    question greedily, as an evaluation does. The tokenizer is named because an adapter's base may
    have none with a chat template.
    """
    system = run.section("prompt").get("system")
    asked = messages(QUESTION, system if isinstance(system, str) else None)
    evaluate, grpo = run.section("evaluate"), run.section("grpo")
    lengths = (evaluate.get("max_new_tokens"), grpo.get("max_completion_length"))
    default = configs.fields("grpo")["max_completion_length"].default
    longest = next((each for each in lengths if type(each) is int), default)
    dtype = run.section("model").get("dtype")
    name, dtype = repr(path.as_posix()), repr(dtype if isinstance(dtype, str) else "auto")
    options = f"max_new_tokens={longest}, do_sample=False, repetition_penalty=1.0"
    options += ", eos_token_id=ask.tokenizer.eos_token_id, return_full_text=False"
    loaded = f"'text-generation', {name}, tokenizer={name}, dtype={dtype}"
    return (
        "from transformers import pipeline\n"
        f"ask = pipeline({loaded})  # its folder, or its id on the Hub\n"
        f"print(ask({asked}, {options})[0]['generated_text'])\n"
    )


# The report ---------------------------------------------------------------------------------------


def report(run: FinishedRun, metrics: list[dict], drawn: bool, advice: Sequence[str]) -> str:
    """The page as Markdown. `drawn`: whether there is a picture of the curves. `advice`: a sentence
    for each thing that there is to look at."""
    lines = [f"# {title(run.path)}", "", f"- recipe: {recipe_line(run)}", f"- base: {base(run)}"]
    problems = f" ({run.problems:,} problems)" if run.problems is not None else ""
    lines += [f"- data: {each}{problems if i == 0 else ''}" for i, each in enumerate(data(run))]
    lines += [f"- {each}" for each in of_steps(run)]
    lines += [f"- {words}"] if (words := effort(run)) else []
    lines += ["", "## How good is it?", ""]
    lines += results(run, "grpo") or ["It was not evaluated."]
    lines += ["", "## What happened?", "", *(f"- {each}" for each in happened(run, metrics))]
    if advice:
        lines += [
            "",
            "## What is there to look at?",
            "",
            *(f"- {code(each, 1000)}" for each in advice),
        ]
    lines += (
        ["", "## How did it learn?", "", "![curves over the steps](curves.png)"] if drawn else []
    )
    if any(RIGHT in line for line in metrics):
        lines += ["", "The band around held-out accuracy is its 95% interval."]
    for rows in some_groups(run.folder):
        lines += ["", *group(rows)]
    return "\n".join(lines) + "\n"


def recipe_line(run: FinishedRun) -> str:
    """The recipe in one line: what its stages set, and the weights of its rewards."""
    grpo, adapter = run.section("grpo"), run.section("adapter")
    words = (
        [f"LoRA (r {code(adapter['r'])})" if "r" in adapter else "LoRA"]
        if is_adapter(run.folder)
        else []
    )
    words += (
        [f"SFT warm start of {code(run.section('sft').get('max_steps'))} steps"]
        if run.section("sft")
        else []
    )
    keys = (
        "max_steps",
        "num_generations",
        "learning_rate",
        "beta",
        "loss_type",
        "max_completion_length",
    )
    name = algorithm(run.recipe.get("algorithm")).made
    words += [f"{name} ({', '.join(f'{key} {code(grpo[key])}' for key in keys if key in grpo)})"]
    rewards = run.section("rewards")
    weights = {
        name: each.get("weight", 1.0) if isinstance(each, dict) else 1.0
        for name, each in rewards.items()
    }
    return ", ".join(
        [*words, *(f"{code(name)} × {code(weight)}" for name, weight in weights.items())]
    )


def happened(run: FinishedRun, metrics: list[dict]) -> list[str]:
    """How the run ended and what is unusual about it, a sentence each."""
    summary, asked = run.summary, run.section("grpo").get("max_steps")
    steps, lines = summary.get("steps"), []
    if steps is not None and is_of(asked, int) and 0 < steps < asked:
        lines.append(f"It ended at step {steps:,} of {asked:,}.")
    elif steps is not None:
        lines.append(f"It ran to its end, step {steps:,}.")
    if "stopped" in summary:
        lines.append(code(summary["stopped"], 600))
    if "resumed_from" in summary:
        lines.append(f"It was interrupted, and resumed from {code(summary['resumed_from'])}.")
    if "best_checkpoint" in summary and "best_accuracy" in summary:
        last = [line[ACCURACY] for line in metrics if ACCURACY in line][-1:]
        then = f"; at the last evaluation it was {last[0]:.1%}" if last else ""
        best = code(summary["best_checkpoint"].rpartition("/")[2])
        lines.append(
            f"It kept {best}, whose held-out accuracy is {summary['best_accuracy']:.1%}{then}."
        )
    if "adapter_error" in summary:
        exact = f"{summary['adapter_error']:.2g} nats a token"
        lines.append(
            "The saved adapter on a clean base gives the trained policy's log-probabilities within"
            f" {exact}."
        )
    return lines


def group(rows: list[dict]) -> list[str]:
    """A group to read, as Markdown: the question, and each completion with its rewards and its
    advantage."""
    step, shown = rows[0]["step"], rows[:COMPLETIONS]
    of = f", {len(shown)} of its {len(rows)} completions" if len(rows) > len(shown) else ""
    lines = [
        f"## A group of step {step if is_of(step, int) else '?'}{of}",
        "",
        *shortened(rows[0]["prompt"]),
    ]
    lines += ["", f"gold {code(rows[0]['gold'])}"]
    for number, row in enumerate(shown, 1):
        scores = [(name, each) for name, each in row.items() if name not in RESERVED]
        scores = [
            (name, each) for name, each in scores if each is None or is_of(each, float)
        ]  # None: it gave none
        words = [
            f"{code(name, 60)} {'none' if each is None else f'{each:.3g}'}" for name, each in scores
        ]
        words += [f"{row['tokens']} tokens"] if is_of(row.get("tokens"), int) else []
        words += ["truncated"] if row.get("truncated") is True else []
        words += [f"advantage {row['advantage']:+.3g}"] if is_of(row["advantage"], float) else []
        lines += [
            "",
            f"{number}. {', '.join(words)}",
            "",
            *shortened(transcript(row["completion"])),
        ]
    return lines


def shortened(message: object) -> list[str]:
    """A prompt's last turn or a completion, as a block of code, without the middle of what is
    long."""
    if isinstance(message, list) and message and isinstance(message[-1], dict):
        message = message[-1].get("content")
    text = clean(str(message))
    if len(text) > CHARACTERS:
        text = f"{text[: CHARACTERS // 2]} … {text[-CHARACTERS // 2 :]}"
    lines = text.split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "…", *lines[-LINES // 2 :]]
    return fenced("\n".join(lines))
