"""Writes one model without an adapter, to serve elsewhere: the base with the trained adapter merged
in.

A quantised base is loaded unquantised, because merging into rounded weights would round the adapter
away.
"""

import dataclasses

from peft import PeftModel

from console.faults import RecipeError
from console.terminal import make_command, say
from evaluation.run_pages import model_card
from runs.folder import read_run
from schema.recipe import Recipe
from stages.cli import quiet_libraries, run
from training.checkpoints import write_whole
from training.model import load_model, load_tokenizer
from training.run_folder import find_run
from training.writing import require_no_link


def main(recipe: Recipe):
    """Write a recipe's trained policy to `merged/` as one model."""
    quiet_libraries()
    trained = recipe.stage_dir("grpo")
    merged = recipe.stage_dir("merged")
    if not find_run(recipe, "grpo").finished:
        raise RecipeError(
            [f"{trained} holds no finished run to merge: {make_command('grpo', recipe)}"]
        )
    if merged.exists():
        say(f"merged already, in {merged}; delete it to merge again")
        return
    tokenizer = load_tokenizer(recipe)
    model = load_model(dataclasses.replace(recipe, quantization=None), tokenizer, trained)
    if isinstance(model, PeftModel):
        model = model.merge_and_unload()
    partial = merged.with_name("merged.partial")
    require_no_link(partial)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    write_whole(partial / "README.md", model_card(read_run(trained), "merged"))
    partial.rename(merged)
    say(f"merged model in {merged}\nnext: {make_command('evaluate', recipe, MODEL=[merged])}")


if __name__ == "__main__":
    run("merge", main)
