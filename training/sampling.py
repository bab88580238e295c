"""The one way in which transformers samples: a `Rollout` stands in the place of a policy's
`generate`, and says in order what happens to a batch of prompts."""

import contextlib
import copy
import inspect
import math
import re
import time
from collections.abc import Callable, Iterator

import torch
from peft import PeftModel
from torch.nn.functional import pad
from torch.overrides import TorchFunctionMode
from transformers import (
    DynamicCache,
    GenerationConfig,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from training.cpu import is_large_on_cpu
from training.merging import keep_base_exact, mergeable, without_adapter

# The layers of a cache that hold keys and values and nothing else.
KEY_VALUE_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)
# Arguments of generate with which a row depends neither on the others nor on where its padding is.
PLAIN = {"input_ids", "attention_mask", "past_key_values", "max_new_tokens", "do_sample"}
PLAIN |= {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "disable_compile"}
PLAIN |= {"bos_token_id", "eos_token_id", "pad_token_id", "transformers_version", "use_cache"}
PLAIN |= {"stopping_criteria"}
# So many tokens that all prompts begin with are worth a pass of their own.
WORTH_SHARING = 8


class Rollout:
    """A policy's `generate`. What happens to a batch, in order:

    1. The adapter is merged into its base, which afterwards is restored to the bit.
    2. Each sampled token is counted, for the line that a long step prints.
    3. A prompt that neighbouring rows share, as the completions of a group do, is read once; on a
       CPU also what different prompts begin with.
    4. On a CPU the rows that have ended are dropped each time that they are half of all.
    5. On a CPU a token is drawn with one random number.

    Args:
        merges: whether to merge an adapter, if the merged model computes the same.
        in_shards: whether a process may hold a part of each weight. All processes then have to
            compute equally often, and nothing is merged, shared or dropped.

    Attributes:
        show: prints what a long step is doing; None outside a run.
    """

    def __init__(
        self, model: PreTrainedModel | PeftModel, merges: bool = False, in_shards: bool = False
    ):
        self.model = model
        self.base = without_adapter(model)
        self.generate = model.generate
        self.show: Callable[[str], None] | None = None
        is_large = is_large_on_cpu(model)
        self.merges = merges and not in_shards and mergeable(model)
        self.shares_prompts = not in_shards and shares_prompts(model)
        self.shares_beginnings = is_large
        self.drops_ended_rows = is_large and not in_shards
        self.draws_once = is_large
        if self.merges:
            keep_base_exact(model)

    def __call__(self, **options) -> torch.Tensor:
        """What transformers' `generate` returns, shape (rows, tokens)."""
        with self._merged():
            options = self._counting(options)
            if self.shares_prompts:
                options |= _prompt_cache(self.base, self.shares_beginnings, **options)
            limits = None
            if self.drops_ended_rows:
                limits = _limits(self.model, options)
            if limits is None:
                return self._draw(**options)
            return generate_in_rounds(self._draw, *limits, **options)

    @contextlib.contextmanager
    def _merged(self) -> Iterator[None]:
        if not self.merges:
            yield
            return
        self.model.merge_adapter()
        try:
            yield
        finally:
            self.model.unmerge_adapter()

    def _counting(self, options: dict) -> dict:
        """The options of a call, with what counts its tokens in a run."""
        if self.show is None:
            return options
        limit = options["generation_config"].max_new_tokens
        tokens = TokenCount(self.show, options["input_ids"].shape, limit)
        return options | {"stopping_criteria": StoppingCriteriaList([tokens])}

    def _draw(self, **options) -> torch.Tensor:
        drawing = contextlib.nullcontext()
        if self.draws_once:
            drawing = DrawOnce()
        with drawing:
            return self.generate(**options)


def _limits(
    model: PreTrainedModel | PeftModel, options: dict
) -> tuple[int, int | list[int], int] | None:
    """The most tokens of a row, its end tokens and its padding; None where a row depends on more
    than its own tokens, and the rows must stay together."""
    config = options.get("generation_config")
    options = {key: value for key, value in options.items() if key != "generation_config"}
    settings = generation_settings(model, config, options)
    names = ("max_new_tokens", "eos_token_id", "pad_token_id")
    limits = tuple(settings.get(name) for name in names)
    if None in limits or not settings.keys() <= PLAIN or not has_plain_cache(model):
        return None
    return limits


class TokenCount(StoppingCriteria):
    """Counts the tokens as they are sampled, says so to `show`, and never stops them."""

    def __init__(self, show: Callable[[str], None], shape: tuple[int, int], limit: int):
        self.show = show
        self.limit = limit
        self.rows, self.prompt_length = shape
        self.began = time.monotonic()

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs
    ) -> torch.BoolTensor:
        tokens = input_ids.shape[1] - self.prompt_length
        rate = self.rows * tokens / max(1e-3, time.monotonic() - self.began)
        self.show(
            f"sampling {self.rows} completions, token {tokens:,} of at most {self.limit:,},"
            f" {rate:,.0f} tokens/s"
        )
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class HalfEnded(StoppingCriteria):
    """Stops a generation when half of its rows or more have ended.

    `going_on`: whether each row has not ended, shape (rows,).
    """

    def __init__(self, rows: int, end_tokens: int | list[int], criteria: StoppingCriteriaList):
        self.going_on = torch.ones(rows, dtype=torch.bool)
        self.end_tokens = torch.tensor(end_tokens)
        self.criteria = criteria

    def __call__(self, input_ids: torch.Tensor, scores, **kwargs) -> torch.Tensor:
        self.going_on &= ~torch.isin(input_ids[:, -1], self.end_tokens)
        self.going_on &= ~self.criteria(input_ids, scores, **kwargs)
        is_half = 2 * self.going_on.sum() <= len(self.going_on)
        return ~self.going_on | is_half


def generate_in_rounds(
    generate: Callable,
    limit: int,
    end_tokens: int | list[int],
    pad_token: int,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config: GenerationConfig | None = None,
    stopping_criteria: StoppingCriteriaList | None = None,
    **options,
) -> torch.Tensor:
    """What `generate` returns, shape (rows, tokens). A round ends when half of its rows have, and
    the next goes on with the others.

    Args:
        limit: how many tokens a row may get.
        generation_config: what `generate` takes its settings from, if not from `options`.
    """
    config = copy.deepcopy(generation_config)
    criteria = stopping_criteria or StoppingCriteriaList()
    width = input_ids.shape[1] + limit
    tokens = torch.full((len(input_ids), width), pad_token)
    tokens[:, : input_ids.shape[1]] = input_ids
    rows = torch.arange(len(input_ids))
    length = input_ids.shape[1]
    while True:
        changes = {"max_new_tokens": width - length, "return_dict_in_generate": True}
        if config is None:
            options |= changes
        else:
            config.update(**changes)
        half = HalfEnded(len(rows), end_tokens, criteria)
        output = generate(
            input_ids=tokens[rows, :length],
            attention_mask=attention_mask,
            generation_config=config,
            stopping_criteria=StoppingCriteriaList([half]),
            **options,
        )
        drawn = output.sequences.shape[1] - length
        length += drawn
        tokens[rows, :length] = output.sequences
        if length == width or not half.going_on.any():
            return tokens[:, :length]
        rows = rows[half.going_on]
        attention_mask = pad(attention_mask, (0, drawn), value=1)[half.going_on]
        options["past_key_values"] = output.past_key_values
        options["past_key_values"].batch_select_indices(half.going_on.nonzero().squeeze(1))


class DrawOnce(TorchFunctionMode):
    """Inside this block `torch.multinomial` draws one random number for each row, where torch draws
    one for each token of the vocabulary: a fifth to a half of the time that sampling takes."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.multinomial and kwargs == {"num_samples": 1}:
            return draw(*args)
        return function(*args, **(kwargs or {}))


def draw(probabilities: torch.Tensor) -> torch.Tensor:
    """An index of each row, drawn by its probabilities, shape (rows, 1): where their running sum
    passes a random share of the whole."""
    sums = probabilities.cumsum(-1)
    total = sums[:, -1:]
    if not total.isfinite().all():
        return torch.multinomial(probabilities, 1)  # which says what is wrong with them
    threshold = torch.rand_like(total) * total
    # Rounded up to the whole, it would be passed nowhere.
    threshold = threshold.minimum(total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(sums, threshold, right=True)


def empty_cache(model: PreTrainedModel) -> DynamicCache:
    return DynamicCache(config=model.config.get_text_config(decoder=True))


def has_plain_cache(model: PreTrainedModel | PeftModel, kinds=(DynamicLayer,)) -> bool:
    layers = empty_cache(without_adapter(model)).layers
    return bool(layers) and all(type(layer) in kinds for layer in layers)


def generation_settings(
    model: PreTrainedModel | PeftModel, config: GenerationConfig | None, options: dict
) -> dict:
    """What a call of `generate` asks for: by the model's settings, by a config, by arguments."""
    settings = model.generation_config.to_diff_dict()
    if config is not None:
        settings |= config.to_diff_dict()
    # What a config says of itself begins with "_"; what is False is not asked for.
    names = [key for key, value in settings.items() if key[0] != "_" and value is not False]
    return {name: settings[name] for name in names} | options


def shares_prompts(model: PreTrainedModel | PeftModel) -> bool:
    """Whether the rows of a batch can start with copies of the keys and values of their prompt; not
    those of a model that caches anything else."""
    base = without_adapter(model)
    is_plain = has_plain_cache(base, KEY_VALUE_LAYERS)
    if not is_plain or not base._supports_default_dynamic_cache():
        return False
    return "position_ids" in inspect.signature(base.base_model.forward).parameters


@torch.no_grad()
def _prompt_cache(
    base,
    with_beginnings: bool,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config=None,
    **options,
) -> dict:
    """The arguments of `generate` that change: the prompts' keys and values, and the tokens in
    their order; none if no rows share any."""
    settings = generation_settings(base, generation_config, options)
    if not settings.keys() <= PLAIN or input_ids.shape[1] == 1:
        return {}
    rows = torch.cat([input_ids, attention_mask], 1)
    _, counts = torch.unique_consecutive(rows, dim=0, return_counts=True)
    repeats = math.gcd(*counts.tolist())
    size = 0
    if with_beginnings and len(counts) > 1:
        size = common_beginning(base, input_ids[::repeats], attention_mask[::repeats])
        size = min(size, input_ids.shape[1] - 2)  # each prompt has something to read by itself
    if repeats == 1 and size == 0:
        return {}
    order = beginning_first(attention_mask, size)
    ids = input_ids.gather(1, order)
    mask = attention_mask.gather(1, order)
    cache = empty_cache(base)
    # `generate` computes the last token, because it samples from what follows it.
    read_prompts(base.base_model, ids[::repeats, :-1], mask[::repeats, :-1], size, cache)
    cache.batch_repeat_interleave(repeats)
    return {"past_key_values": cache, "input_ids": ids, "attention_mask": mask}


def common_beginning(base: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor) -> int:
    """How many tokens all prompts begin with; 0 if it does not pay, or the model cannot have
    padding behind them.

    Args:
        ids, mask: shape (prompts, width), padded on the left.
    """
    if not has_relative_positions(base) or not has_plain_cache(base):
        return 0
    first = mask.argmax(1, keepdim=True)
    columns = (first + torch.arange(mask.shape[1])).clamp(max=mask.shape[1] - 1)
    tokens = ids.gather(1, columns)
    is_common = (tokens == tokens[:1]).all(0)
    shortest = int(mask.sum(1).min())
    size = int(is_common[: shortest - 1].long().cumprod(0).sum())
    return size if size >= WORTH_SHARING else 0


def has_relative_positions(model: PreTrainedModel) -> bool:
    """Whether a model computes the same wherever in a row a text begins: by rotations whose
    frequencies do not depend on the row's length."""
    rotations = getattr(model.config.get_text_config(decoder=True), "rope_parameters", None)
    return bool(rotations) and not re.search("dynamic|longrope", str(rotations))


def beginning_first(mask: torch.Tensor, size: int) -> torch.Tensor:
    """The order of columns, shape (prompts, width), in which the first `size` tokens of each prompt
    stand before its padding.

    Args:
        mask: shape (prompts, width), padded on the left.
    """
    columns = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    padding = (mask == 0).sum(1, keepdim=True)
    order = torch.where(columns < size + padding, columns - size, columns)
    return torch.where(columns < size, columns + padding, order)


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Of each token among those of its row that are no padding."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def read_prompts(
    forward: Callable, ids: torch.Tensor, mask: torch.Tensor, size: int, cache: DynamicCache
) -> torch.Tensor:
    """Fill the cache with the keys and values of prompts, and return their hidden states, shape
    (prompts, width, size of a state).

    Args:
        forward: the model without its head.
        size: of their common beginning, which is read once.
    """
    hidden = []
    places = positions(mask)
    options = {"past_key_values": cache, "use_cache": True}
    if size:
        beginning = forward(
            input_ids=ids[:1, :size],
            attention_mask=mask[:1, :size],
            position_ids=places[:1, :size],
            **options,
        )
        cache.batch_repeat_interleave(len(ids))
        hidden.append(beginning.last_hidden_state.expand(len(ids), -1, -1))
    last = forward(
        input_ids=ids[:, size:],
        attention_mask=mask,
        position_ids=places[:, size:],
        **options,
    )
    return torch.cat([*hidden, last.last_hidden_state], 1)
