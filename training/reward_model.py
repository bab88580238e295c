"""A reward model: loaded as the policy is (safetensors, none of its code), frozen, and asked what
it says of texts."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from accelerate import PartialState
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.integrations import is_deepspeed_zero3_enabled, is_fsdp_enabled

from data import hub
from schema.faults import Fault, RecipeError, is_out_of_memory, said_by_library
from schema.models import OF_COMPLETIONS, OF_STEPS, head, wrong_config
from schema.names import LEARNED
from schema.recipe import Recipe
from training import model_files
from training.model import load_weights, looked_at, refused, require_usable

# Of a batch, with its padding: the three widest activations of Qwen2.5-7B, each of 18,944 numbers
# for a token, are then
# 1.7 GiB in 16 bits.
TOKENS = 16_384
TASKS = {OF_COMPLETIONS: model_files.OF_SEQUENCES, OF_STEPS: model_files.OF_TOKENS}
RIGHT = 1  # of the labels of a step: trl writes int(label), which is 1 for a right step


class RewardModel:
    """What a loaded reward model says of texts. A text's score does not depend on the others it is
    asked about, beyond the rounding of sums in another order; of equal texts it is the same to the
    bit.

    `of_steps`: whether it judges the steps of a completion, and not the whole.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, of_steps: bool):
        self.tokenizer, self.of_steps = tokenizer, of_steps
        self.model = model.requires_grad_(False).eval().to(PartialState().device)
        text = model.config.get_text_config()
        # by which transformers finds the last token of each text
        text.pad_token_id = tokenizer.pad_token_id
        self.window = getattr(text, "max_position_embeddings", None)

    def scores(self, conversations: list[list[dict[str, str]]]) -> list[float | None]:
        """The one label's logit for each conversation, as the model's own chat template writes it;
        None where it is longer than the model's window."""
        texts = [self.tokenizer.apply_chat_template(each, tokenize=False) for each in conversations]
        ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        return [None if found is None else found.item() for found in self._logits(ids)]

    def step_scores(
        self, questions: list[str], steps: list[list[str]], separator: str
    ) -> list[list[float | None]]:
        """For each completion the probability that each of its steps is right, with the question
        and the steps before it in view; None where all together are longer than the model's window.

        The text is trl's for process reward models: the question, then each step and the separator,
        tokenised one by one and without a chat template. A step is judged at the last token of its
        separator.
        """
        marks, begin = self._ids(separator), self.tokenizer.bos_token_id
        texts, ends = [], []
        for question, each in zip(questions, steps, strict=True):
            ids, at = ([] if begin is None else [begin]) + self._ids(question), []
            for step in each:
                ids = ids + self._ids(step) + marks
                at.append(len(ids) - 1)
            texts.append(ids)
            ends.append(at)
        found = zip(self._logits(texts), ends, strict=True)
        return [
            [None] * len(at) if of is None else of[at].softmax(-1)[:, RIGHT].tolist()
            for of, at in found
        ]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _logits(self, texts: list[list[int]]) -> list[torch.Tensor | None]:
        """For each text the logits in float32, of shape (labels,) for the whole of it or (tokens,
        labels)."""
        fitting = {
            tuple(each)
            for each in texts
            if each and (self.window is None or len(each) <= self.window)
        }
        found = {}
        for batch in _batches(sorted(fitting, key=lambda each: (len(each), each))):
            longest, pad = len(batch[-1]), self.tokenizer.pad_token_id
            ids = torch.tensor([[*each, *[pad] * (longest - len(each))] for each in batch])
            mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in batch])
            with torch.no_grad():
                device = self.model.device
                logits = self.model(
                    input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False
                ).logits
            for each, mine in zip(batch, logits.float().cpu(), strict=True):
                found[each] = mine[: len(each)] if self.of_steps else mine
        return [found.get(tuple(each)) for each in texts]


def _batches(texts: list[tuple]) -> Iterator[list[tuple]]:
    """Batches of texts that come by length, the shortest first; each of at most `TOKENS`, padding
    included, or of one text."""
    batch: list[tuple] = []
    for each in texts:
        if batch and (len(batch) + 1) * len(each) > TOKENS:
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def load_reward_model(recipe: Recipe) -> RewardModel:
    """The model of the recipe's reward `learned`, in the dtype of the recipe's own.

    Raises:
        RecipeError: it cannot be loaded, its files are refused, or it is not the kind of model that
            is needed.
    """
    if is_deepspeed_zero3_enabled() or is_fsdp_enabled():
        message = (
            f"rewards.{LEARNED}: with ZeRO-3 or FSDP no process has the whole of a model: use ddp"
            " or zero2"
        )
        raise RecipeError([Fault(recipe.place("rewards", LEARNED), message)])
    tokenizer, wanted = load_tokenizer_of(recipe), head(recipe.rewards[LEARNED])
    with _looked_at(recipe) as folder:
        model = load_weights(folder, recipe, TASKS[wanted])
    return RewardModel(model, tokenizer, wanted is OF_STEPS)


def load_tokenizer_of(recipe: Recipe) -> PreTrainedTokenizerBase:
    """The tokenizer of the reward model, once its config.json is looked at too; no weight is
    loaded.

    Raises:
        RecipeError: as `load_reward_model`; or it has no chat template, or no token to pad with.
    """
    require_head(recipe)
    options = recipe.rewards[LEARNED]
    with _looked_at(recipe, weights=False) as folder:
        require_usable(
            folder, None, recipe.prompt.system, recipe.place("rewards", LEARNED, "model")
        )
        tokenizer = AutoTokenizer.from_pretrained(
            folder, padding_side="right", trust_remote_code=False
        )
    if head(options) is OF_STEPS:
        mark = options.get("separator", "\n")
        if not tokenizer(mark, add_special_tokens=False)["input_ids"]:
            raise _refused(recipe, f"its tokenizer makes no token of the separator {mark!r}")
    elif tokenizer.chat_template is None:
        raise _refused(
            recipe,
            "its tokenizer has no chat template, which would write prompt and completion for it",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise _refused(recipe, "its tokenizer has neither a pad token nor an eos token")
    return tokenizer


def require_head(recipe: Recipe) -> PretrainedConfig:
    """The config of the reward model, once its head is the one that is needed.

    Raises:
        RecipeError: it is another, or the config cannot be read.
    """
    with _looked_at(recipe, weights=False) as folder:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if wrong := wrong_config(config.to_dict(), head(recipe.rewards[LEARNED])):
        raise _refused(recipe, wrong)
    return config


def bytes_of(recipe: Recipe) -> int:
    """The bytes of the reward model's weights; 0 without one.

    Raises:
        RecipeError: as `require_head`.
    """
    if LEARNED not in recipe.rewards:
        return 0
    config, auto = require_head(recipe), model_files.AUTO[TASKS[head(recipe.rewards[LEARNED])]]
    with torch.device("meta"), said_by_library(recipe.place("rewards", LEARNED, "model")):
        model = auto.from_config(
            config, dtype=getattr(torch, recipe.model.dtype), trust_remote_code=False
        )
    return sum(each.numel() * each.element_size() for each in model.parameters())


@contextlib.contextmanager
def _looked_at(recipe: Recipe, weights: bool = True) -> Iterator[Path]:
    """The folder to load the reward model from; what a library says of it in the block becomes a
    fault."""
    options, name = recipe.rewards[LEARNED], recipe.rewards[LEARNED]["model"]
    try:
        if not Path(name).is_dir():
            hub.reach()
        with looked_at(name, options.get("revision"), TASKS[head(options)], weights) as folder:
            yield folder
    except RecipeError as error:
        raise _refused(recipe, "; ".join(map(str, error.faults))) from None
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise refused(
            recipe.place("rewards", LEARNED, "model"), f"reward model {name}", name, error
        ) from error


def _refused(recipe: Recipe, message: str) -> RecipeError:
    place = recipe.place("rewards", LEARNED, "model")
    return RecipeError(
        [Fault(place, f"reward model {recipe.rewards[LEARNED]['model']}: {message}")]
    )
