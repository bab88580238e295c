"""GRPO's loss without what cannot change it: padding, completions without advantage, and on a CPU a
prompt for each of its completions. The loss itself is trl's."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from peft import PeftModel
from torch.nn.functional import pad
from transformers import PreTrainedModel
from trl.trainer import grpo_trainer

from training.cpu import is_large_on_cpu
from training.merging import without_adapter
from training.sampling import (
    beginning_first,
    common_beginning,
    empty_cache,
    has_plain_cache,
    has_relative_positions,
    positions,
    read_prompts,
)

# The losses that divide by the tokens of all micro-batches together.
WHOLE_BATCH = ("dapo", "cispo")


class LeanLoss:
    """What GRPOTrainer does otherwise: its passes through the model read nothing that cannot change
    the loss. Put it before trl's class among the bases."""

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None, **options
    ) -> tuple:
        """trl's, of each micro-batch without the columns that are padding in all its rows: trl pads
        to the longest prompt and completion of all that were sampled together. What is left out is
        0 in what it returns, of shape (rows, logits_to_keep). On a CPU a prompt is read once for
        all its completions."""
        unwrapped = self.accelerator.unwrap_model(model)
        begins_anywhere = has_relative_positions(unwrapped)
        rows, width = input_ids.shape
        first = width - logits_to_keep
        passes = []
        size = batch_size or rows
        for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
            columns = mask.any(0).nonzero()[:, 0].tolist()
            begin = columns[0] if begins_anywhere else 0
            end = max(columns[-1], first) + 1
            with sharing_prompts(unwrapped, first - begin):
                logps, entropies, auxiliary = super()._get_per_token_logps_and_entropies(
                    model, ids[:, begin:end], mask[:, begin:end], end - first, **options
                )
            if entropies is not None:
                entropies = pad(entropies, (0, width - end))
            passes.append((pad(logps, (0, width - end)), entropies, auxiliary))
        if len(passes) == 1:  # as a loss, which alone has entropies
            return passes[0]
        return torch.cat([logps for logps, _, _ in passes]), None, None

    def _prepare_inputs(self, generation_batch) -> dict:
        """trl's, which shuffles what was sampled and splits it into micro-batches. Where one update
        learns from all of them alike, a group stays together, so that it can share its prompt."""
        is_one_update = self.args.steps_per_generation == self.args.gradient_accumulation_steps
        is_one_loss = self.loss_type in WHOLE_BATCH and not self.compares_tokens()
        if is_one_update and is_one_loss:
            with keeping_order(self.accelerator.unwrap_model(self.model)):
                return super()._prepare_inputs(generation_batch)
        return super()._prepare_inputs(generation_batch)

    def _compute_loss(self, model, inputs: dict) -> torch.Tensor:
        if self.model.training:
            if self.reads_advantages_alone():
                inputs = with_advantage(inputs)
            inputs = without_padding(inputs)
        return super()._compute_loss(model, inputs)

    def reads_advantages_alone(self) -> bool:
        """Whether a completion without advantage leaves the loss as it is: nothing else pulls at
        it, and the loss is no mean over completions. Several processes gather equal numbers of
        them."""
        if self.args.world_size > 1 or self.loss_type not in WHOLE_BATCH:
            return False
        return not self.beta and not self._entropy_bonus_enabled and not self.compares_tokens()

    def compares_tokens(self) -> bool:
        """Whether what a token counts for depends on the others of its micro-batch."""
        return self.aux_loss_enabled or self.top_entropy_quantile < 1


def with_advantage(inputs: dict) -> dict:
    """A batch of the loss without the completions of groups that all earned the same. One stays
    where all did, if there is one whose tokens count."""
    has_tokens = inputs["completion_mask"].any(1)
    has_advantage = inputs["advantages"].reshape(len(has_tokens), -1).any(1)
    if has_advantage.any():
        rows = has_advantage.nonzero()[:, 0]
    else:
        rows = has_tokens.int().argmax()[None]
    by_completion = {
        key: value for key, value in inputs.items() if torch.is_tensor(value) and value.dim()
    }
    return inputs | {key: value[rows] for key, value in by_completion.items()}


def without_padding(inputs: dict) -> dict:
    """A batch of the loss without the columns that hold no token of its completions."""
    in_completion = inputs["completion_mask"].any(0)
    in_completion[0] = True  # with mask_truncated_completions, a batch may learn from no token
    cut = {}
    for key, value in inputs.items():
        is_by_token = torch.is_tensor(value) and value.dim() == 2 and value.shape[1] > 1
        if is_by_token and not key.startswith("prompt"):
            cut[key] = value[:, in_completion]
    return inputs | cut


@contextmanager
def sharing_prompts(model: PreTrainedModel | PeftModel, columns: int) -> Iterator[None]:
    """Inside this block the model's passes compute the first so many columns once for all rows that
    have the same tokens in them, as the completions of a group have their prompt. Their gradients
    flow back through the keys and values that the rows share."""
    base = without_adapter(model)
    is_worth_it = columns > 0 and is_large_on_cpu(base) and has_relative_positions(base)
    is_worth_it = is_worth_it and not drops_out(model)  # in each row by itself
    # A pass that computes its layers again on its way back keeps no keys and values.
    if not is_worth_it or base.is_gradient_checkpointing or not has_plain_cache(base):
        yield
        return
    backbone = base.base_model
    forward = backbone.forward
    backbone.forward = functools.partial(forward_sharing, base, forward, columns)
    try:
        yield
    finally:
        backbone.forward = forward


def drops_out(model: PreTrainedModel | PeftModel) -> bool:
    dropouts = [module for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    return any(dropout.training and dropout.p for dropout in dropouts)


@contextmanager
def keeping_order(model: PreTrainedModel | PeftModel) -> Iterator[None]:
    """Inside this block trl does not shuffle the completions that it has sampled."""
    shuffle = grpo_trainer.shuffle_sequence_dict
    if is_large_on_cpu(model):
        grpo_trainer.shuffle_sequence_dict = lambda batch: batch
    try:
        yield
    finally:
        grpo_trainer.shuffle_sequence_dict = shuffle


def forward_sharing(
    model: PreTrainedModel,
    forward: Callable,
    columns: int,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    **options,
):
    """What `forward`, the model's backbone, returns for rows of tokens, shape (rows, width)."""
    prompts = torch.cat([input_ids[:, :columns], attention_mask[:, :columns]], 1)
    prompts, prompt_of = prompts.unique(dim=0, return_inverse=True)
    passed = {key for key, value in options.items() if value is not None}
    if len(prompts) == len(input_ids) or passed - {"use_cache", "return_dict"}:
        return forward(input_ids=input_ids, attention_mask=attention_mask, **options)
    cache = empty_cache(model)
    ids, mask = prompts[:, :columns], prompts[:, columns:]
    size = common_beginning(model, ids, mask)
    order = beginning_first(mask, size)
    ids, mask = ids.gather(1, order), mask.gather(1, order)
    of_prompts = read_prompts(forward, ids, mask, size, cache)
    of_prompts = of_prompts[torch.arange(len(ids))[:, None], order.argsort(1)]
    cache.batch_select_indices(prompt_of)
    mask = torch.cat([mask[prompt_of], attention_mask[:, columns:]], 1)
    output = forward(
        input_ids=input_ids[:, columns:],
        attention_mask=mask,
        position_ids=positions(mask)[:, columns:],
        past_key_values=cache,
        use_cache=True,
    )
    output.last_hidden_state = torch.cat([of_prompts[prompt_of], output.last_hidden_state], 1)
    return output
