"""Small real models for tests, made once a session, and one way to run a stage as a user does."""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import pytest
import stage_process

ROOT = Path(__file__).parent.parent
# The recipes of this repository: a reader's own beside them are the reader's to judge. Without git, whatever is there.
_TRACKED = subprocess.run(
    ["git", "ls-files", "recipes/*.yaml"], cwd=ROOT, capture_output=True, text=True
).stdout.split()
SHIPPED = sorted(_TRACKED) or sorted(str(each.relative_to(ROOT)) for each in (ROOT / "recipes").glob("*.yaml"))
os.environ["TQDM_DISABLE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that would need the Hub must fail, not wait
WITH_VLLM = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed: make setup EXTRAS=vllm"),
]
GPU_TABLE: dict[str, str] = {}  # what `make test-gpu` measures
COUNTED: Counter = Counter()  # what became of hostile values


def pytest_terminal_summary(terminalreporter):
    if COUNTED:
        terminalreporter.write_line("\nhostile values: " + ", ".join(f"{n:,} {what}" for what, n in COUNTED.items()))
    if GPU_TABLE:
        rows = "\n".join(f"| {what} | {measured} |" for what, measured in GPU_TABLE.items())
        terminalreporter.write_line(f"\n| what | measured, {date.today()} |\n| --- | --- |\n{rows}\n")


@pytest.fixture(scope="session")
def tiny_qwen2(tmp_path_factory) -> Path:
    """A random one-layer model of Qwen2.5-Math's architecture with a byte-level tokenizer of its kind, for the recipes
    whose weights a test cannot download."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-qwen2"
    vocabulary = {symbol: i for i, symbol in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def math_data(tmp_path_factory) -> Path:
    """Parquet files with the Hub's columns and a few rows of our own."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("data")
    for split, first in (("train", 2), ("test", 12)):
        sums = [(a, b) for a in range(first, first + 6) for b in range(2, 8)]
        gsm8k = [
            (f"Ann has {a} pens and buys {b}. How many?", f"{a}+{b}=<<{a}+{b}={a + b}>>{a + b}.\n#### {a + b}")
            for a, b in sums
        ]
        maths = [(f"What is ${a}\\cdot {b}$?", f"It is $\\boxed{{{a * b}}}$.", "Level 1", "Algebra") for a, b in sums]
        pd.DataFrame(gsm8k, columns=["question", "answer"]).to_parquet(folder / f"gsm8k-{split}.parquet")
        frame = pd.DataFrame(maths, columns=["problem", "solution", "level", "type"])
        frame.to_parquet(folder / f"math-{split}.parquet")
    frame.to_parquet(folder / "math-500.parquet")
    return folder


@contextmanager
def far_below_quadratic():
    """Fails on more processor time than any linear reading takes: milliseconds for the 100,000 characters of these
    tests, where a quadratic one takes minutes. Wall time would measure the machine's other work."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 5


def run_stage(stage: str, *arguments: object, launcher: tuple[str, ...] = (), check: bool = True, **environment: str):
    """`python -m stages.<stage> …` (or under `accelerate launch`) from the root of the repository."""
    words, environ = list(map(str, arguments)), os.environ | environment
    if launcher:
        command = [str(Path(sys.executable).with_name("accelerate")), *launcher, "-m", f"stages.{stage}", *words]
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    else:
        with tempfile.TemporaryDirectory() as folder:
            done = stage_process.run(f"stages.{stage}", words, ROOT, environ, Path(folder))
    if check and done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


def run_program(program: Path, *arguments: object) -> subprocess.CompletedProcess:
    """A stage with something patched, from the root of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        done = stage_process.run(str(program), list(map(str, arguments)), ROOT, dict(os.environ), Path(folder))
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done
