"""The card of a model: what made it, from its own run folder. trl's and peft's say "fine-tuned version of None"."""

from pathlib import Path

from schema.recipe import Recipe


def card(recipe: Recipe, stage: str, run: Path) -> str:
    """Markdown with the Hub's front matter. A base model that is not the Hub's is named as what it is.

    Args:
        run: the folder of the stage's run, with its recipe.yaml and versions.json.
    """
    model = recipe.model
    on_hub = model.build is None and not Path(model.name_or_path).is_dir()
    base = model.name_or_path if model.build is None else f"{model.build}, made by this repository"
    adapter = recipe.adapter is not None and stage != "merged"
    front = [f"base_model: {base}"] if on_hub else []
    front += [
        f"library_name: {'peft' if adapter else 'transformers'}",
        "tags: [trl, grpo]",
        "pipeline_tag: text-generation",
    ]
    made = {"sft": "the SFT warm start", "grpo": "GRPO", "merged": "GRPO, the adapter merged into its base"}[stage]
    kind = "A LoRA adapter for" if adapter else "A model trained from"
    lines = ["---", *front, "---", "", f"# {recipe.name}: {stage}", ""]
    lines += [f"{kind} {base}: the result of {made}, by the recipe below (its `prompt` is the one to ask it with)."]
    lines += ["How good it is `make evaluate` measures; nothing is claimed here.", ""]
    for name, language in (("recipe.yaml", "yaml"), ("versions.json", "json")):
        if (run / name).is_file():
            lines += [f"`{name}`", "", f"```{language}", (run / name).read_text(encoding="utf-8").rstrip(), "```", ""]
    return "\n".join(lines)
