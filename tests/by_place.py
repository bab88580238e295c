"""The GRPO stage with completions that depend on the policy, the prompt and the place in the group
alone, and not on the number of processes: each is sampled with random numbers of its own. It is
sampled all the same: the most likely token after adding Gumbel noise to the logits is a token drawn
at temperature 1.

    python -m tests.by_place recipes/x.yaml key=value …
"""

import hashlib

import torch
from transformers import GenerationMixin

from stages import grpo
from stages.cli import run

generate = GenerationMixin.generate


class Noise:
    """Adds to the logits of each row its own noise, of shape (rows, tokens of the longest
    completion, vocabulary)."""

    def __init__(self, noise: torch.Tensor, prompt_length: int):
        self.noise, self.prompt_length = noise, prompt_length

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores + self.noise[:, ids.shape[1] - self.prompt_length].to(scores.device)


def by_place(self, input_ids, attention_mask, generation_config, **kwargs):
    seen, noise = {}, []
    for row, mask in zip(input_ids, attention_mask, strict=True):
        prompt = str(row[mask.bool()].tolist())
        seen[prompt] = place = seen.get(prompt, -1) + 1
        seed = int.from_bytes(hashlib.sha256(f"{prompt} {place}".encode()).digest()[:7])
        shape = (generation_config.max_new_tokens, self.config.vocab_size)
        uniform = torch.rand(
            shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        noise.append(-(-uniform.log()).log())
    generation_config.do_sample = False
    processor = Noise(torch.stack(noise).float(), input_ids.shape[1])
    given = {
        "generation_config": generation_config,
        "attention_mask": attention_mask,
        "logits_processor": [processor],
    }
    return generate(self, input_ids=input_ids, **given, **kwargs)


if __name__ == "__main__":
    GenerationMixin.generate = by_place
    run("grpo", grpo.main)
