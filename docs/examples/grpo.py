"""GRPO in plain PyTorch: a model that knows nothing learns to write even digits, in seconds.

    .venv/bin/python docs/examples/grpo.py outputs/models/tiny-qwen3-seed42

The model: a folder or a Hub id; `make grpo` builds the one above. The loss is that of the recipe
`tiny-grpo-paper`, and trl's to rounding. docs/learn.md explains it.
"""

import copy
import sys
from collections.abc import Callable, Iterator

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizer

G, EPSILON, BETA, UPDATES = 8, 0.2, 0.04, 2  # UPDATES with each batch


def sample(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizer, question: str, tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (G, question + completion), and which of a completion count (G, completion)."""
    prompt = tokenizer(question, return_tensors="pt").input_ids.repeat(G, 1)
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    ids = model.generate(**inputs, do_sample=True, top_k=0, max_new_tokens=tokens)
    ends = (ids[:, prompt.shape[1] :] == tokenizer.eos_token_id).int()
    return ids, (ends.cumsum(1) - ends == 0).float()


def logps(model: PreTrainedModel, ids: torch.Tensor, length: int) -> torch.Tensor:
    """Log-probabilities (G, length) of the last tokens."""
    logits = model(ids).logits[:, -length - 1 : -1]
    return torch.log_softmax(logits, -1).gather(-1, ids[:, -length:, None])[..., 0]


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    """(G,), from the rewards (G,) of one group."""
    return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


def grpo_loss(
    now: torch.Tensor, old: torch.Tensor, ref: torch.Tensor, A: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """A number. `now`, `old` and `ref` are log-probabilities (G, completion), `A` is (G, 1)."""
    ratio = torch.exp(now - old)
    gain = torch.min(ratio * A, ratio.clamp(1 - EPSILON, 1 + EPSILON) * A)
    kl = torch.exp(ref - now) - (ref - now) - 1  # by trl's defaults times `ratio`
    loss = BETA * kl - gain
    # by trl's defaults (loss * counts).sum() / counts.sum(), over the whole batch
    return ((loss * counts).sum(1) / counts.sum(1)).mean()


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizer,
    questions: list[str],
    reward: Callable[[str, str], float],
    steps: int,
    tokens: int,
    learning_rate: float,
) -> Iterator[float]:
    """Train the model in place; yields the mean reward of each step."""
    reference = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        batch = []
        earned = []
        for question in questions:
            ids, counts = sample(model, tokenizer, question, tokens)
            length = counts.shape[1]
            texts = tokenizer.batch_decode(ids[:, -length:], skip_special_tokens=True)
            rewards = torch.tensor([reward(question, text) for text in texts])
            with torch.no_grad():
                old = logps(model, ids, length)
                ref = logps(reference, ids, length)
            batch.append((ids, old, ref, advantages(rewards)[:, None], counts))
            earned += rewards.tolist()
        for _ in range(UPDATES):
            for ids, old, ref, A, counts in batch:
                loss = grpo_loss(logps(model, ids, counts.shape[1]), old, ref, A, counts)
                (loss / len(batch)).backward()
            optimizer.step()
            optimizer.zero_grad()
        yield sum(earned) / len(earned)


def even(question: str, text: str) -> float:
    """The share of even digits among eight tokens."""
    return sum(character in "02468" for character in text) / 8


def main(name: str):
    """Print the mean reward of each of 30 steps."""
    model = AutoModelForCausalLM.from_pretrained(name)
    tokenizer = AutoTokenizer.from_pretrained(name)
    prompts = ["1+2=", "3+3="]
    rewards = train(model, tokenizer, prompts, even, steps=30, tokens=8, learning_rate=3e-3)
    print([round(reward, 2) for reward in rewards])  # say, 0.05 … 0.97


if __name__ == "__main__":
    main(sys.argv[1])
