"""Writes a model's card, which says what made it. The cards of trl and peft say "fine-tuned version of None"."""

from pathlib import Path

from schema.recipe import Recipe


def card(recipe: Recipe, stage: str, run: Path) -> str:
    """The card as Markdown with the Hub's front matter, which names the base model only if that is on the Hub.

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
    lines += [f"{kind} {base}: the result of {made}, with the recipe below (ask it with that recipe's `prompt`)."]
    lines += ["This card makes no claim about the model's accuracy; `make evaluate` measures it.", ""]
    for name, language in (("recipe.yaml", "yaml"), ("versions.json", "json")):
        if (run / name).is_file():
            lines += [f"`{name}`", "", f"```{language}", (run / name).read_text(encoding="utf-8").rstrip(), "```", ""]
    return "\n".join(lines)
