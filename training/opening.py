"""Opens a stranger's model as a run would, in one process with limits of memory and time. The
outcome decides whether the model is used.

The weights have no storage in that process. A model that fails only at some later question stops or
hangs that run, but still reaches no file and no network.
"""

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jinja2 import TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from console.faults import Fault, Place, RecipeError
from data import hub, prompt
from data.limits import Exceeded, limited

SECONDS = 20  # of processor time; the largest known model and tokenizer take a few
MEMORY = 2  # GiB
# With characters that a template may rewrite.
QUESTION = ("What is 2 + 2 < 5 & x > 'y'? " * 100).strip()
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
        place: the place that a fault of tokenizer or template names.
        template: the recipe's template, in place of the tokenizer's.
        arguments: the values that the recipe sets in the template.
    """

    place: Place | str
    system: str | None = None
    template: str | None = None
    arguments: dict[str, Any] | None = None


def opened(file: Path, place: Place | str, failure: str, work: Callable, *arguments: Any) -> Any:
    """Call `work` in the process with limits, and return its result.

    Args:
        file: the file that is opened.
        place: the place that a fault of the limits names, which may be a recipe's chat template.
        failure: the meaning of a library's complaint about the file, in words.

    Raises:
        RecipeError: the work exceeds its limits, or fails.
    """
    try:
        return limited(work, *arguments, seconds=SECONDS, memory=MEMORY)
    except Exceeded as error:
        raise RecipeError([Fault(place, f"opening it {error}: take another")]) from None
    except Exception as error:
        complaint = " ".join(str(error).split()) or type(error).__name__
        raise RecipeError([Fault(str(file), f"{failure}: {complaint:.200}")]) from None


def sizes(
    config: dict[str, Any], folder: Path, task: str, chat: Chat | None
) -> tuple[int, int, str | None]:
    """Count the numbers that a model's config asks for, shared ones once, and the numbers that its
    weights hold.

    Returns:
        both counts, and the fault of its tokenizer or chat template where it is to be used for
        `chat`; None for no fault.
    """
    with hub.unasked():
        model = _built(config, task)
        complaint = None
        if chat is not None:
            complaint = _complaint(folder, chat)
    numbers = itertools.chain(model.parameters(), model.buffers())
    wanted = sum(number.numel() for number in numbers)
    return wanted, sum(map(math.prod, _shapes(folder).values())), complaint


def missing_weights(config: dict[str, Any], settings: dict[str, Any], folder: Path) -> list[str]:
    """The names of the weights that a LoRA adapter needs for its base and lacks; a library only
    warns.

    Args:
        config: the config of the base model.
        folder: the private folder of the adapter.

    Raises:
        RuntimeError: some have another shape.
    """
    lora = LoraConfig(task_type="CAUSAL_LM", **settings | {"init_lora_weights": False})
    with hub.unasked(), torch.device("meta"):
        model = get_peft_model(_built(config, CAUSAL_LM), lora)
        weights = {name: torch.empty(shape) for name, shape in _shapes(folder).items()}
        missing = set_peft_model_state_dict(model, weights).missing_keys
    return [name for name in missing if ".default" in name]


def _shapes(folder: Path) -> dict[str, list[int]]:
    """Every weight's shape by its name, from the headers of a private folder's files. Parts may be
    links to one file, so a name counts once. The names are printed where they do not fit a model,
    so they must be plain."""
    shapes = {}
    for file in folder.glob("*.safetensors"):
        try:
            with safe_open(file, "np") as part:
                shapes |= {name: part.get_slice(name).get_shape() for name in part.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(f"{file.name} cannot be read: {error}") from None
    for name in shapes:
        if not re.fullmatch(r"[\w./-]{1,500}", name, re.ASCII):
            raise ValueError(f"it has a weight named {name!r:.60}")
    return shapes


def _built(config: dict[str, Any], task: str) -> PreTrainedModel:
    """A model without storage: its config alone can ask for any number of layers, of any width."""
    fields = dict(config)
    settings = AutoConfig.for_model(fields.pop("model_type"), **fields)
    with torch.device("meta"):
        return AUTO[task].from_config(settings, trust_remote_code=False)


def _complaint(folder: Path, chat: Chat) -> str | None:
    """Let a tokenizer and a chat template write, split and read a question and an answer. Return
    the fault in words; None for no fault."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        try:
            tokenizer.chat_template = template_of(tokenizer, chat.template, chat.arguments or {})
        except ValueError as error:
            return str(error)
        question = prompt.messages(QUESTION, chat.system)
        answered = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "!"}]
        text = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
        if QUESTION not in text:
            return "does not write the question as it is"
        texts = [text, tokenizer.apply_chat_template(answered, tokenize=False)]
        tokens = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        vocabulary = [[token] for token in range(len(tokenizer))]
        results = texts + tokens + tokenizer.batch_decode(tokens + vocabulary)
    except MemoryError:  # of a limit of the user's shell or batch system
        raise
    except BaseException as error:  # whatever the template raises, or the tokenizer's Rust
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    largest = max(map(len, results))
    if largest > LONGEST + 3 * sum(len(turn["content"]) for turn in question):
        return f"makes {largest:,} characters or tokens of a short question"
    if chat.system and chat.system.strip() not in text:
        return "does not write prompt.system: put it into model.chat_template, or leave it out"
    return None


# The code that applies a template sets these arguments.
SET_BY_CALLER = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}


def template_of(tokenizer, template: str | None, arguments: dict) -> str:
    """The recipe's template, or else the tokenizer's, or else a plain one, with the recipe's
    arguments."""
    template = template or one_template(tokenizer)
    if not template:
        template = prompt.PLAIN_CHAT_TEMPLATE
        if prompt.begins_with_bos(tokenizer):
            template = "{{ bos_token }}" + template
    return with_arguments(template, arguments)


def with_arguments(template: str, arguments: dict[str, bool | int | float | str]) -> str:
    """Set a template's arguments to these values, unless the code that applies it sets them. So the
    values hold everywhere: in trl, vLLM, the warm start, evaluation and chat, and in the tokenizer
    that a run saves.

    Raises:
        ValueError: the template reads no such argument.
    """
    if not arguments:
        return template
    try:
        variables = meta.find_undeclared_variables(_parsed(template))
    except TemplateError:  # reported where the template is tried
        variables = set(arguments)
    variables -= SET_BY_CALLER
    for name in arguments:
        if name not in variables:
            names = ", ".join(sorted(variables)) or "none"
            raise ValueError(f"reads no argument {name!r}, but {names}")
    return arguments_set(arguments) + template


def arguments_set(arguments: dict) -> str:
    """The lines to put before a template, which set these arguments."""
    lines = []
    for name, value in arguments.items():
        literal = json.dumps(value, ensure_ascii=False)
        lines.append(f"{{%- set {name} = {name} if {name} is defined else {literal} %}}\n")
    return "".join(lines)


def _parsed(template: str) -> nodes.Template:
    tags = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", template)  # transformers' own
    return ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).parse(tags)


def one_template(tokenizer) -> str | None:
    """The template that a tokenizer writes conversations with; some hold one for tools or documents
    beside it."""
    template = tokenizer.chat_template
    return template.get("default") if isinstance(template, dict) else template
