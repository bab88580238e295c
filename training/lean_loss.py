"""Keeps out of a batch of the loss what cannot change it: completions without an advantage, and
columns of padding. The loss itself is trl's."""

import torch


class LeanLoss:
    """What GRPOTrainer does otherwise: its loss reads nothing that cannot change it. Put it before
    trl's class among the bases."""

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
        if self.args.world_size > 1 or self.loss_type not in ("dapo", "cispo"):
            return False
        reads_every_completion = (
            self.beta
            or self._entropy_bonus_enabled
            or self.aux_loss_enabled
            or self.top_entropy_quantile < 1
        )
        return not reads_every_completion


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
    """A batch of the loss without the columns that hold no token of it: trl pads to the longest
    prompt and completion of all that were sampled together. What is compared with earlier
    log-probabilities keeps its prompts' padding, by which some models count positions."""
    cut = {}
    if not inputs.keys() & {"old_per_token_logps", "ref_per_token_logps"}:
        in_prompt = inputs["prompt_mask"].any(0)
        cut["prompt_ids"] = inputs["prompt_ids"][:, in_prompt]
        cut["prompt_mask"] = inputs["prompt_mask"][:, in_prompt]
    in_completion = inputs["completion_mask"].any(0)
    in_completion[0] = True  # with mask_truncated_completions, a batch may learn from no token
    for key, value in inputs.items():
        is_by_token = torch.is_tensor(value) and value.dim() == 2 and value.shape[1] > 1
        if is_by_token and not key.startswith("prompt"):
            cut[key] = value[:, in_completion]
    return inputs | cut
