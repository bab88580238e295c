"""Writes a model's card, which says what made it and what it reaches; the cards of trl and peft say "fine-tuned version
of None". The front matter is the Hub's (https://huggingface.co/docs/hub/model-cards) without its `model-index`, which
has no place for an interval. A field whose value nobody has read is left out."""

import io
import json
import re
from pathlib import Path

from huggingface_hub import ModelCardData, try_to_load_from_cache
from ruamel.yaml import YAML

from data.prompt import messages
from data.sources import HUB
from evaluation import run_files
from runs.folder import FinishedRun, read_run, title
from schema import library_fields
from schema.stages import STAGES, algorithm
from schema.strict_yaml import LARGEST, Unreadable, value_of
from schema.terminal import code, fenced
from training.checkpoints import write_whole
from training.model import is_adapter

QUESTION = "What is 47 + 85?"


def write(folder: Path, stage: str, merged: Path | None = None):
    """Write `README.md` of a finished run into its folder.

    Args:
        stage: one that trains the policy, or `merged` for the model that was made of a run's adapter, which gets the
            card.

    Raises:
        RecipeError: the folder holds no finished run.
    """
    write_whole((merged or folder) / "README.md", card(read_run(folder), stage))


def card(run: FinishedRun, stage: str) -> str:
    """The card as Markdown, with the Hub's front matter."""
    adapter = stage != "merged" and is_adapter(run.folder)
    path = run.path.with_name("merged") if stage == "merged" else run.path
    licence = licence_of_base(run)
    lines = ["---", front_matter(run, stage, licence).to_yaml(), "---", "", f"# {title(path)}", ""]
    was_merged = stage == "merged" and is_adapter(run.folder)
    kind = "A LoRA adapter" if adapter else "A model"
    trained = STAGES["grpo" if stage == "merged" else stage]
    made = algorithm(run.recipe.get("algorithm")).made if trained.name == "grpo" else trained.made
    made += " after an SFT warm start" if trained.warm_start and run.section("sft") else ""
    lines += [f"{kind} for mathematics, made by {made}{', its adapter merged in' if was_merged else ''}.", ""]
    named = f", {code(licence)} by its card, applies" if licence else " applies; no file here names it"
    lines += [f"Base: {run_files.base(run)}. The licence of the base{named}.", ""]
    lines += ["## How is it asked?", "", *fenced(usage(run, path), "python")]
    if adapter and run.section("quantization"):
        lines += ["", "It was trained on a quantised base, which these lines load unquantised."]
    lines += ["", "## How good is it?", ""]
    found = run_files.results(run, trained.name)
    if was_merged and found:
        lines += ["Measured before the adapter was merged.", ""]
    lines += found or ["It was not evaluated: nothing is known of its accuracy."]
    lines += ["", "## How was it made?", "", *(f"- {each}" for each in run_files.data(run))]
    lines += [f"- {run.problems:,} training problems"] if run.problems is not None else []
    lines += [f"- {each}" for each in run_files.ways(run)]
    lines += [f"- {words}"] if (words := run_files.effort(run)) else []
    text = io.StringIO()
    YAML().dump(run_files.reduced(run.recipe), text)
    for name, language, value in (
        ("recipe.yaml", "yaml", text.getvalue()),
        ("versions.json", "json", json.dumps(run.versions, indent=2)),
    ):
        lines += ["", f"`{name}`", "", *fenced(value, language)]
    return "\n".join(lines) + "\n"


def front_matter(run: FinishedRun, stage: str, licence: str | None) -> ModelCardData:
    """What the Hub lists a model by. To the Hub a merge is one of several models, so a model with its adapter merged in
    is a finetune."""
    adapter = stage != "merged" and is_adapter(run.folder)
    names = [name for name, _ in run_files.training_sets(run)]
    hub = [found[0] for name in names if (found := run_files.from_hub(run, name))]
    # Of the sets that are known to be English: a file by the name of one may not be.
    known = run_files.GENERATED
    english = names and all(name in known or (name in HUB and run_files.from_hub(run, name)) for name in names)
    return ModelCardData(
        base_model=run_files.on_hub(run),
        base_model_relation=("adapter" if adapter else "finetune") if run_files.on_hub(run) else None,
        datasets=hub or None,
        language="en" if english else None,
        license=licence,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["trl", "grpo" if stage == "merged" else stage, *(["lora"] if adapter else [])],
    )


def licence_of_base(run: FinishedRun) -> str | None:
    """The licence that the base model's own card names, where that card is on this machine: beside the model, or in the
    Hub's cache."""
    model = run.section("model")
    if hub_id := run_files.on_hub(run):
        revision = model.get("revision")
        found = try_to_load_from_cache(hub_id, "README.md", revision=revision if isinstance(revision, str) else None)
    else:
        found = Path(model["name_or_path"]) / "README.md" if isinstance(model.get("name_or_path"), str) else None
    try:
        if not Path(found).is_file():  # a pipe would wait for ever
            return None
        with Path(found).open(encoding="utf-8") as file:
            matter = re.match(r"---\n(.*?)\n---\n", file.read(LARGEST), re.DOTALL)
        licence = value_of(matter[1])["license"]
    except (OSError, UnicodeDecodeError, Unreadable, TypeError, LookupError):
        return None
    # One that the Hub calls "other" has a name and a link, which belong to the base's own card.
    known = isinstance(licence, str) and re.fullmatch(r"[a-z0-9.-]+", licence) and licence != "other"
    return licence if known else None


def usage(run: FinishedRun, path: Path) -> str:
    """Three lines of Python that load the model, or the adapter with its base, and ask it a question greedily, as an
    evaluation does. The tokenizer is named because an adapter's base may have none with a chat template."""
    system = run.section("prompt").get("system")
    asked = messages(QUESTION, system if isinstance(system, str) else None)
    evaluate, grpo = run.section("evaluate"), run.section("grpo")
    lengths = (evaluate.get("max_new_tokens"), grpo.get("max_completion_length"))
    default = library_fields.fields("grpo")["max_completion_length"].default
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
