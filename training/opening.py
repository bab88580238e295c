"""Opens a stranger's model as a run would, in one process with limits of memory and time. What that
process says decides whether the model is used.

Weights have no storage here. What fails only at some later question stops or hangs that
run, but still reaches no file and no network.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from data import hub, prompt
from data.limits import Exceeded, limited
from schema.faults import Fault, Place, RecipeError
from training.chat_template import template_of

SECONDS = 20  # of processor time; the largest known model and tokenizer take a few
MEMORY = 2  # GiB
QUESTION = ("What is 2 + 2? " * 200).strip()
# Characters or tokens beyond three times the conversation; the longest instructions of a known
# template have some 5,000.
LONGEST = 20_000

AUTO = {
    "causal language model": AutoModelForCausalLM,
    "model for sequence classification": AutoModelForSequenceClassification,
}
CAUSAL_LM, OF_SEQUENCES = AUTO


class Chat(NamedTuple):
    """The conversations that a model is to be used for.

    Args:
        place: what a fault of tokenizer or template names.
        template: the recipe's own, in place of the tokenizer's.
        arguments: the values that the recipe sets in the template.
    """

    place: Place | str
    system: str | None = None
    template: str | None = None
    arguments: dict[str, Any] | None = None


def open_model(
    file: Path, config: dict[str, Any], folder: Path, task: str, chat: Chat | None = None
) -> int:
    """How many numbers a model has, shared ones once.

    Args:
        file: the stranger's config, which faults name.
        config: what the private folder has of it.
        folder: the private folder.
        chat: what its tokenizer is to be used for; None leaves the tokenizer closed.

    Raises:
        RecipeError: the model, its tokenizer or its chat template cannot be used.
    """
    failure = f"{config.get('model_type')!r:.80} cannot be built as a {task}"
    place = str(file) if chat is None else chat.place
    numbers, complaint = _opened(file, place, failure, _model, config, folder, task, chat)
    if complaint:
        raise RecipeError([Fault(place, f"the chat template or the tokenizer {complaint}")])
    return numbers


def open_adapter(
    file: Path, config: dict[str, Any], settings: dict[str, Any], shapes: dict[str, list[int]]
) -> list[str]:
    """The weights that a LoRA adapter needs for its base and has not; a library only warns.

    Args:
        file: the stranger's settings, which faults name.
        config: of the base model.
        shapes: of the weights that the adapter has.

    Raises:
        RecipeError: some have another shape, or the adapter cannot be built.
    """
    failure = "its weights are others"
    return _opened(file, str(file), failure, _adapter, config, settings, shapes)


def _opened(file: Path, place: Place | str, failure: str, work: Callable, *arguments: Any) -> Any:
    """What `work` returns in the process with limits.

    Args:
        place: what may have exceeded them.
        failure: what a library's complaint about the file means.
    """
    try:
        return limited(work, *arguments, seconds=SECONDS, memory=MEMORY)
    except Exceeded as error:
        raise RecipeError([Fault(place, f"opening it {error}: take another")]) from None
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise RecipeError([Fault(str(file), f"{failure}: {said:.200}")]) from None


def _model(
    config: dict[str, Any], folder: Path, task: str, chat: Chat | None
) -> tuple[int, str | None]:
    with hub.unasked():
        model = _built(config, task)
        complaint = None if chat is None else _complaint(folder, chat)
    weights = itertools.chain(model.parameters(), model.buffers())
    return sum(weight.numel() for weight in weights), complaint


def _adapter(
    config: dict[str, Any], settings: dict[str, Any], shapes: dict[str, list[int]]
) -> list[str]:
    lora = LoraConfig(task_type="CAUSAL_LM", **settings | {"init_lora_weights": False})
    with hub.unasked(), torch.device("meta"):
        model = get_peft_model(_built(config, CAUSAL_LM), lora)
        weights = {name: torch.empty(shape) for name, shape in shapes.items()}
        missing = set_peft_model_state_dict(model, weights).missing_keys
    return [name for name in missing if ".default" in name]


def _built(config: dict[str, Any], task: str) -> PreTrainedModel:
    """A model without storage: its config alone can ask for any number of layers, of any width."""
    fields = dict(config)
    settings = AutoConfig.for_model(fields.pop("model_type"), **fields)
    with torch.device("meta"):
        return AUTO[task].from_config(settings, trust_remote_code=False)


def _complaint(folder: Path, chat: Chat) -> str | None:
    """What is wrong with a tokenizer or a chat template that writes, splits and reads a question
    and an answer; or None."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        try:
            tokenizer.chat_template = template_of(tokenizer, chat.template, chat.arguments or {})
        except ValueError as error:
            return str(error)
        asked = prompt.messages(QUESTION, chat.system)
        answered = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "!"}]
        written = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        if QUESTION not in written:
            return "does not write the question"
        texts = [written, tokenizer.apply_chat_template(answered, tokenize=False)]
        tokens = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        vocabulary = [[token] for token in range(len(tokenizer))]
        results = texts + tokens + tokenizer.batch_decode(tokens + vocabulary)
    except MemoryError:  # of a limit of the user's shell or batch system
        raise
    except BaseException as error:  # whatever the template raises, or the tokenizer's Rust
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    largest = max(map(len, results))
    if largest > LONGEST + 3 * sum(len(turn["content"]) for turn in asked):
        return f"makes {largest:,} characters or tokens of a short question"
    return None
