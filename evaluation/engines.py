"""Turns prompts into completions for the evaluation, with transformers or with vLLM. Both get the
same token ids."""

import contextlib
import gc
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from console.faults import Fault, RecipeError
from machine.hardware import nvidia_smi
from rewards.verifier import last_turn
from runs.files import is_adapter
from schema.names import tools_of
from schema.recipe import Recipe
from schema.sections import Sampling
from schema.settings import vllm_dtype
from training.model import adapter_settings, base_model, checked, load_for_sampling
from training.tools import sample_in_turns


class Completion(NamedTuple):
    """`text`: what is judged. `tokens`: the length without the end token, with what tools said.
    `truncated`: it reached the limit before it ended. `turns`: its messages, where it may call
    tools."""

    text: str
    tokens: int
    truncated: bool
    turns: list[dict] | None = None


Engine = Callable[[list[list[int]], int, Sampling], list[Completion]]
"""(token ids of each prompt, seed, how to sample) → one completion for each prompt, whatever
`samples` and `limit`."""


def shared(recipe: Recipe, trained: str | Path | None) -> tuple:
    """A key that models have in common if one engine serves them: with vLLM a base and the adapters
    on it, with transformers one model."""
    model = trained
    if recipe.evaluate.engine == "vllm" and is_adapter(trained):
        model = None  # vLLM serves an adapter beside its base
    return base_model(recipe), recipe.model.revision, model


@contextlib.contextmanager
def engine(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    trained: list[str | Path | None],
    longest_prompt: int,
) -> Iterator[list[Engine]]:
    """The recipe's engine while the block runs, for each model that it is to serve: `trained` holds
    the folders of stages, None for the base model; `shared` is equal for all. vLLM reserves memory
    for the longest prompt, in tokens. Raises RecipeError where the weights cannot be loaded, or
    vLLM is not installed or has no GPU."""
    if recipe.evaluate.engine == "vllm":
        with vllm_engine(recipe, tokenizer, trained, longest_prompt) as served:
            yield served
    else:
        engines = []
        for folder in trained:
            model = load_for_sampling(recipe, tokenizer, folder)
            engines.append(answering(recipe, model, tokenizer))
        yield engines
    gc.collect()  # a model that is still in memory leaves no room for the next


def max_new_tokens(recipe: Recipe) -> int:
    """As many tokens as training allows a completion, unless the recipe says otherwise."""
    return recipe.evaluate.max_new_tokens or recipe.settings["grpo"]["max_completion_length"]


def dtype(recipe: Recipe) -> str:
    """What the recipe's engine computes in."""
    if recipe.evaluate.engine == "vllm":
        return vllm_dtype(recipe)
    return recipe.model.dtype


def answering(recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    """transformers' `generate` with a model, and the turns of the recipe's tools, as an engine."""
    max_tokens = max_new_tokens(recipe)
    max_calls = recipe.settings["grpo"]["max_tool_calling_iterations"]
    end_tokens = model.generation_config.eos_token_id

    def complete(prompts: list[list[int]], seed: int, sampling: Sampling) -> list[Completion]:
        torch.manual_seed(seed)
        sample = partial(generate, model, tokenizer, max_new_tokens=max_tokens, sampling=sampling)
        sampled = sample_in_turns(
            sample, tokenizer, tools_of(recipe), prompts, max_tokens, max_calls
        )
        completions = []
        for tokens, turns in sampled:
            truncated = tokens[-1] not in end_tokens
            completions.append(_completion(tokenizer, tokens, truncated, turns))
        return completions

    return complete


@torch.inference_mode()
def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[list[int]],
    max_new_tokens: int,
    sampling: Sampling,
) -> list[list[int]]:
    """The tokens that follow each of a batch of prompts (token ids), with the one that ends them
    where they ended."""
    batch = tokenizer.pad(
        {"input_ids": prompts}, padding=True, padding_side="left", return_tensors="pt"
    )
    # The model's own config may hold a temperature or a repetition penalty, which must not be
    # inherited.
    options = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if sampling.temperature:
        temperature = float(sampling.temperature)  # transformers takes no whole number
        options |= {"do_sample": True, "temperature": temperature, "top_k": 0}
        options["top_p"] = sampling.top_p
    options |= {"repetition_penalty": 1.0, "max_new_tokens": max_new_tokens}
    options |= {"pad_token_id": tokenizer.pad_token_id, **sampling.more}
    tokens = model.generate(**batch.to(model.device), **options)
    prompt_length = batch["input_ids"].shape[1]
    end_tokens = set(model.generation_config.eos_token_id)
    return [_up_to_end(row, end_tokens) for row in tokens[:, prompt_length:].tolist()]


def _up_to_end(tokens: list[int], end_tokens: set[int]) -> list[int]:
    """The tokens up to the first that ends them, with it; what follows is padding."""
    for i, token in enumerate(tokens):
        if token in end_tokens:
            return tokens[: i + 1]
    return tokens


@contextlib.contextmanager
def vllm_engine(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    trained: list[str | Path | None],
    longest_prompt: int,
) -> Iterator[list[Engine]]:
    """vLLM's offline `LLM`, which serves adapters beside their base, without merging."""
    _require_vllm(recipe)
    from vllm.lora.request import LoRARequest

    adapters = {}
    for folder in filter(is_adapter, trained):
        adapters[str(folder)] = adapter_settings(recipe, Path(folder))
    if adapters and dtype(recipe) == "float32" and torch.cuda.is_available():
        message = "vllm's kernels for adapters have no float32 on a GPU: use transformers"
        raise RecipeError([f"evaluate.engine: {message}"])
    served = base_model(recipe) if adapters or trained[0] is None else str(trained[0])
    max_rank = max((config.r for config in adapters.values()), default=None)
    try:
        model = _load_vllm(recipe, served, max_rank, longest_prompt + max_new_tokens(recipe))
    # A RuntimeError is a failure in the process of vLLM's engine.
    except (OSError, ValueError, RuntimeError) as error:
        message = f"evaluate.engine: vllm cannot serve {served}: {error}"
        raise RecipeError([Fault(recipe.place("evaluate", "engine"), message)]) from error
    requests = {}
    for number, folder in enumerate(adapters, 1):
        requests[folder] = LoRARequest(folder, number, folder)
    yield [_by_vllm(model, requests.get(str(folder)), recipe, tokenizer) for folder in trained]
    # Its process lives on, and keeps its memory, for as long as anything refers to it.
    model.llm_engine.engine_core.shutdown()


def _require_vllm(recipe: Recipe):
    try:
        from vllm.platforms import current_platform
    except ImportError as error:
        remedy = "make setup EXTRAS=vllm, or use transformers"
        message = f"evaluate.engine: vllm cannot be imported ({error}): {remedy}"
        raise RecipeError([message]) from error
    if not (torch.cuda.is_available() or current_platform.is_cpu()):
        message = "evaluate.engine: this vllm needs a GPU, and there is none: use transformers"
        raise RecipeError([Fault(recipe.place("evaluate", "engine"), message)])


def _load_vllm(recipe: Recipe, name: str, max_rank: int | None, max_length: int):
    """vLLM's `LLM` with a model, room for adapters up to this rank, or none, and for prompts with
    their completions of so many tokens."""
    from vllm import LLM

    revision = recipe.model.revision if name == recipe.model.name_or_path else None
    return LLM(
        model=str(checked(name, revision)),
        tokenizer=str(checked(base_model(recipe), recipe.model.revision, weights=False)),
        dtype=dtype(recipe),
        seed=recipe.seed,
        max_model_len=max_length,
        trust_remote_code=False,
        gpu_memory_utilization=_share_for_vllm(),
        enable_lora=max_rank is not None,
        max_lora_rank=_rank_for_vllm(max_rank or 16),
    )


def _share_for_vllm() -> float:
    """The share of the memory that vLLM takes: of a GPU what is free, less a margin, for it refuses
    to start with more. On a CPU other programs need the machine's memory too."""
    shares = [0.85 if torch.cuda.is_available() else 0.4]
    for line in nvidia_smi("memory.free", "memory.total")[:1]:
        if re.fullmatch(r"\d+, \d+", line):
            free, total = map(int, line.split(", "))
            shares.append(free / total - 0.05)
    return min(shares)


def _by_vllm(model, adapter, recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> Engine:
    """vLLM's `LLM` with an adapter that it serves, or None, as an engine."""
    from vllm import SamplingParams

    def complete(prompts: list[list[int]], seed: int, sampling: Sampling) -> list[Completion]:
        options = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": max_new_tokens(recipe),
            "stop_token_ids": [tokenizer.eos_token_id],
        }
        options |= sampling.more
        parameters = [SamplingParams(seed=seed + i, **options) for i in range(len(prompts))]
        requests = [{"prompt_token_ids": ids} for ids in prompts]
        outputs = model.generate(requests, parameters, lora_request=adapter, use_tqdm=False)
        completions = []
        for ids, output in zip(prompts, outputs, strict=True):
            if output.prompt_token_ids != ids:
                raise RuntimeError("vLLM answered other prompts than were sent")
            answer = output.outputs[0]
            truncated = answer.finish_reason == "length"
            completions.append(_completion(tokenizer, list(answer.token_ids), truncated))
        return completions

    return complete


def _rank_for_vllm(rank: int) -> int:
    """The smallest rank that vLLM can reserve room for and that is not below an adapter's."""
    for size in (8, 16, 32, 64, 128, 256, 320, 512):
        if size >= rank:
            return size
    return rank


def _completion(
    tokenizer, tokens: list[int], truncated: bool, turns: list[dict] | None = None
) -> Completion:
    """`tokens`: with the last, which ends it unless it is truncated."""
    length = len(tokens)
    if not truncated:
        length -= 1
    text = tokenizer.decode(tokens[:length], skip_special_tokens=True)
    if turns:
        text = last_turn([turn["content"] for turn in turns if turn["role"] == "assistant"])
        truncated = truncated or "tool_calls" in turns[-1]
    return Completion(text, length, truncated, turns)
