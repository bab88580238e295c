"""One model without an adapter, for those who serve it elsewhere: the base with the trained adapter merged in.

A quantised base is loaded unquantised first: merging into rounded weights would round the adapter away.
"""

import dataclasses

from peft import PeftModel

from stages.cli import quiet_libraries, run, say
from stages.faults import RecipeError
from stages.model import load_model, load_tokenizer
from stages.recipe import Recipe


def main(recipe: Recipe):
    """Write a recipe's trained policy to `merged/` as one model."""
    quiet_libraries()
    trained, merged = recipe.stage_dir("grpo"), recipe.stage_dir("merged")
    if not (trained / "summary.json").is_file():
        raise RecipeError([f"{trained} holds no finished run to merge"])
    if merged.exists():
        raise RecipeError([f"{merged} is there already: move it away to merge again"])
    tokenizer = load_tokenizer(recipe)
    model = load_model(dataclasses.replace(recipe, quantization=None), tokenizer, trained)
    if isinstance(model, PeftModel):
        model = model.merge_and_unload()
    partial = merged.with_name("merged.partial")
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(merged)
    say(f"merged model in {merged}")


if __name__ == "__main__":
    run("merge", main)
