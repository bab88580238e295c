"""How much memory do the models of PPO, GRPO and DPO take, by their size? With `make memory`'s own
estimator.

`python -m tests.bench.sizes` writes the table that the lab shows, into docs/lab/index.html: all
weights trained as in qwen-math-full, in float32; LoRA as in qwen-math-lora, and QLoRA, that in four
bits; always with a KL to a reference. The models are Qwen2.5 of 1.5B and 7B and Llama 2 of 13B and
70B, whose shapes stand here.
"""

import json
import re
import tempfile
from pathlib import Path

from safetensors.torch import save_file
from transformers import LlamaConfig, Qwen2Config

from schema.recipe import load_recipe
from stages.memory import variants
from training.memory import GIB, Parts, estimate

PAGE = Path("docs/lab/index.html")
BLOCK = re.compile(r'(?<=id="memory">\n).*?(?=\n</script>)', re.S)
FULL, LORA = "recipes/qwen-math-full.yaml", "recipes/qwen-math-lora.yaml"
# Name: config, vocabulary, hidden size, MLP's size, layers, attention heads, key-value heads,
# whether head and embedding are one (config.json of Qwen/Qwen2.5-1.5B and so on).
SHAPES = {
    "1.5B": (Qwen2Config, 151_936, 1536, 8960, 28, 12, 2, True),
    "7B": (Qwen2Config, 152_064, 3584, 18944, 28, 28, 4, False),
    "13B": (LlamaConfig, 32_000, 5120, 13824, 40, 40, 40, False),
    "70B": (LlamaConfig, 32_000, 8192, 28672, 80, 64, 8, False),
}
KEYS = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
KEYS += ("num_attention_heads", "num_key_value_heads", "tie_word_embeddings")


def table_of_page() -> dict:
    """The table that the lab shows."""
    return json.loads(BLOCK.search(PAGE.read_text(encoding="utf-8"))[0])


def held(parts: Parts, reward_model: int) -> dict[str, dict[str, int]]:
    """Bytes of what each method holds before it reads a batch.

    `parts`: of GRPO with a KL. PPO adds a critic that is made and trained as the policy is; DPO
    needs no reward model.
    """
    policy = parts.weights + parts.trained_weights
    grpo = {"policy": policy, "reference": parts.reference, "reward model": reward_model}
    grpo |= {"critic": 0, "gradients": parts.gradients, "optimizer": parts.optimizer}
    critic = {"gradients": 2 * parts.gradients, "optimizer": 2 * parts.optimizer}
    ppo = grpo | {"critic": policy} | critic
    return {"PPO": ppo, "GRPO": grpo, "DPO": grpo | {"reward model": 0}}


def table(sizes: list[str]) -> dict:
    """{size: {"full", "LoRA" and "QLoRA": {"PPO", "GRPO" and "DPO": {part: GiB}}}}; a reward model
    has the policy's size, in bfloat16."""
    gib_of_sizes = {}
    for size in sizes:
        config, *shape = SHAPES[size]
        with tempfile.TemporaryDirectory() as folder:
            keys = dict(zip(KEYS, shape, strict=True))
            config(**keys, max_position_embeddings=4096).save_pretrained(folder)
            # none is read, and a folder without it is no model
            save_file({}, Path(folder) / "model.safetensors")
            given = [f"model.name_or_path={folder}", "grpo.beta=0.001"]
            full, lora = (load_recipe(each, given) for each in (FULL, LORA))
            ways = {"full": full, "LoRA": lora, "QLoRA": variants(lora)["QLoRA"]}
            parts = {way: estimate(each) for way, each in ways.items()}
        ways = gib_of_sizes[size] = {}
        for way, parts_of_way in parts.items():
            methods = held(parts_of_way, parts["LoRA"].weights)
            for sizes_of_parts in methods.values():
                for part in sizes_of_parts:
                    sizes_of_parts[part] = round(sizes_of_parts[part] / GIB, 2)
            ways[way] = methods
    return gib_of_sizes


if __name__ == "__main__":
    written = BLOCK.sub(json.dumps(table(list(SHAPES))), PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(written, encoding="utf-8")
