"""How much memory do GRPO and PPO take, by the size of the model? With `make memory`'s own estimator.

`python -m tests.bench.sizes` writes the table that the lab of `make view` shows, viewer/page/memory.json: the recipe
qwen-math-lora on a GPU of 80 GiB, with models of the Qwen2.5 family, whose shapes stand here.
"""

import json
import tempfile
from pathlib import Path

from safetensors.torch import save_file
from transformers import Qwen2Config

from schema.recipe import load_recipe
from stages.memory import variants, with_critic
from training.memory import GIB, PROMPT_TOKENS, Setting, estimate

FILE = Path("viewer/page/memory.json")
RECIPE, CARD = "recipes/qwen-math-lora.yaml", 80.0
# Name: hidden size, MLP's size, layers, attention heads, key-value heads, whether head and embedding are one
# (config.json of Qwen/Qwen2.5-0.5B and so on).
SHAPES = {
    "0.5B": (896, 4864, 24, 14, 2, True),
    "1.5B": (1536, 8960, 28, 12, 2, True),
    "3B": (2048, 11008, 36, 16, 2, True),
    "7B": (3584, 18944, 28, 28, 4, False),
    "14B": (5120, 13824, 48, 40, 8, False),
}
VOCABULARY = {"7B": 152_064, "14B": 152_064}


def table(sizes: list[str]) -> dict:
    """{"card", "recipe", "sizes": {size: {way of training: GiB}}}"""
    found = {}
    for size in sizes:
        hidden, mlp, layers, heads, kv_heads, tied = SHAPES[size]
        config = Qwen2Config(
            vocab_size=VOCABULARY.get(size, 151_936),
            hidden_size=hidden,
            intermediate_size=mlp,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            tie_word_embeddings=tied,
            max_position_embeddings=4096,
        )
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            save_file({}, Path(folder) / "model.safetensors")  # none is read, and a folder without it is no model
            recipe = load_recipe(RECIPE, [f"model.name_or_path={folder}"], check=())
            ways = {f"GRPO, {way}": other for way, other in variants(recipe).items()}
            parts = {way: estimate(each, PROMPT_TOKENS, Setting(), CARD) for way, each in ways.items()}
        parts |= {f"PPO, {way}": with_critic(parts[f"GRPO, {way}"]) for way in ("full", "LoRA")}
        found[size] = {way: round(each.total / GIB, 1) for way, each in parts.items()}
    return {"card": CARD, "recipe": Path(RECIPE).stem, "sizes": found}


if __name__ == "__main__":
    FILE.write_text(json.dumps(table(list(SHAPES)), indent=1) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))
