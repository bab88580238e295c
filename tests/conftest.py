"""Fixtures that tests share: a small real model, small data sets, a short run of all stages, made
once per session. A summary at the end shows what the session counted and measured."""

import fcntl
import gc
import itertools
import os
import shutil
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tests import place

CHECKOUT = place.enter()  # before the libraries, which read the environment once

from data import imports  # noqa: E402
from tests import waits  # noqa: E402
from tests.stage_process import DRAWS  # noqa: E402
from tests.support import CHAIN, COUNTED, GPU_TABLE, run_stage  # noqa: E402
from training.tiny_models import built_model  # noqa: E402

place.set_working_tree(CHECKOUT)
# Where the model of recipes/tiny-second-round.yaml would be, so that the recipe can be read.
(CHECKOUT / "outputs/tiny-arithmetic/grpo").mkdir(parents=True, exist_ok=True)


def pytest_xdist_setupnodes():
    """Build the tiny model once, before there are workers, and not in each."""
    built_model("tiny-qwen3", 42)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """A test that takes a run that others share is one that trains: pytest chooses by the marks
    after this."""
    for item in items:
        if {"chain", "trained"} & {*item.fixturenames}:
            item.add_marker("train")
    # or each collection would go through all that the libraries and the tests' names made
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    if COUNTED:
        counts = ", ".join(f"{number:,} {outcome}" for outcome, number in COUNTED.items())
        terminalreporter.write_line(f"\nhostile values: {counts}")
    if GPU_TABLE:
        rows = "\n".join(f"| {what} | {measured} |" for what, measured in GPU_TABLE.items())
        head = f"| what | measured, {date.today()} |\n| --- | --- |"
        terminalreporter.write_line(f"\n{head}\n{rows}\n")


@pytest.fixture(autouse=True)
def environment_restored():
    """What a test, or the code it calls, sets in the environment ends with the test."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    os.chdir(CHECKOUT)


@pytest.fixture(autouse=True)
def processes_ended():
    """A process that a test has started ends with it, whatever happens."""
    with waits.all_ended():
        yield


@pytest.fixture
def own_file(tmp_path, monkeypatch) -> Callable[[str, str], None]:
    """Writes a Python file into the test's folder, which is the working tree for recipes here and
    in the processes that the test starts."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("WORKING_TREE", str(tmp_path))
    monkeypatch.setattr(imports, "ROOT", tmp_path)

    def write(name: str, text: str):
        (tmp_path / name).write_text(text)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)  # of another test

    return write


@pytest.fixture(scope="session")
def tiny_qwen2(tmp_path_factory) -> Path:
    """A random one-layer model of Qwen2.5-Math's architecture with a byte-level tokenizer of its
    kind, for the recipes whose weights a test cannot download."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-qwen2"
    vocabulary = {symbol: i for i, symbol in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    turn = "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    header = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    tokenizer.chat_template = f"{{% for m in messages %}}{turn}{{% endfor %}}{header}"
    return random_qwen2(folder, tokenizer, num_hidden_layers=1)


@pytest.fixture(scope="session")
def peaked_qwen2(tiny_qwen2, tmp_path_factory) -> Path:
    """A random model whose next tokens are far from equally likely. On disk it ends at
    `<|endoftext|>`, while its template ends a turn with `<|im_end|>`."""
    import torch
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "peaked-qwen2"
    tokenizer = AutoTokenizer.from_pretrained(tiny_qwen2)
    settings = {"num_hidden_layers": 2, "initializer_range": 0.2}
    return random_qwen2(folder, tokenizer, torch.bfloat16, **settings)


@pytest.fixture(scope="session")
def tiny_moe(tmp_path_factory) -> Path:
    """A random Qwen3 of two layers with four experts each, beside the tiny model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen3MoeConfig, Qwen3MoeForCausalLM

    from training.tiny_models import built_model

    folder = tmp_path_factory.mktemp("models") / "tiny-moe"
    tokenizer = AutoTokenizer.from_pretrained(built_model("tiny-qwen3", 42))
    torch.manual_seed(0)
    small = dict.fromkeys(("num_hidden_layers", "num_attention_heads", "num_experts_per_tok"), 2)
    small |= {"moe_intermediate_size": 16, "head_dim": 16, "hidden_size": 32, "num_experts": 4}
    small |= {"num_key_value_heads": 1} | ends_of(tokenizer)
    config = Qwen3MoeConfig(vocab_size=len(tokenizer), bos_token_id=None, **small)
    Qwen3MoeForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def ends_of(tokenizer) -> dict[str, int]:
    return {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}


def random_qwen2(folder: Path, tokenizer, dtype=None, **settings) -> Path:
    """Write a small random model of Qwen2.5's architecture beside its tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    settings |= {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2}
    settings |= {"num_key_value_heads": 1} | ends_of(tokenizer)
    config = Qwen2Config(vocab_size=len(tokenizer), bos_token_id=None, **settings)
    Qwen2ForCausalLM(config).to(dtype or torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def math_data(tmp_path_factory) -> Path:
    """Parquet files with the Hub's columns and a few rows of our own."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("data")
    for split, first in (("train", 2), ("test", 12)):
        gsm8k, maths, svamp = [], [], []
        for a, b in itertools.product(range(first, first + 6), range(2, 8)):
            answer = f"{a}+{b}=<<{a}+{b}={a + b}>>{a + b}.\n#### {a + b}"
            gsm8k.append((f"Ann has {a} pens and buys {b}. How many?", answer))
            solution = f"It is $\\boxed{{{a * b}}}$."
            body, sum_of_both = f"Ben has {a} cups and gets {b} more", f"( {a}.0 + {b}.0 )"
            svamp.append((body, "How many cups has he?", float(a + b), sum_of_both, "Addition"))
            maths.append((f"What is ${a}\\cdot {b}$?", solution, "Level 1", "Algebra"))
        frame = pd.DataFrame(gsm8k, columns=["question", "answer"])
        frame.to_parquet(folder / f"gsm8k-{split}.parquet")
        frame = pd.DataFrame(svamp, columns=["Body", "Question", "Answer", "Equation", "Type"])
        frame.to_parquet(folder / f"svamp-{split}.parquet")
        frame = pd.DataFrame(maths, columns=["problem", "solution", "level", "type"])
        frame.to_parquet(folder / f"math-{split}.parquet")
    frame.to_parquet(folder / "math-500.parquet")
    return folder


@pytest.fixture(scope="session")
def chain(tmp_path_factory) -> Path:
    """The folder of a short run of all stages, evaluated on its validation problems; `said/<stage>`
    holds what each said. It is trained once for all workers, and no test writes into it: see
    `copied`."""
    home = tmp_path_factory.getbasetemp()
    home = home.parent if "PYTEST_XDIST_WORKER" in os.environ else home
    folder, said = home / "chain", home / "chain/said"
    with (home / "chain.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not (said / "evaluate").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            said.mkdir(parents=True)
            words = ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}", *CHAIN]
            for stage in ("sft", "grpo", "evaluate"):
                options = ["--validation"] if stage == "evaluate" else []
                done = run_stage(stage, *words, *options, **DRAWS)
                (said / stage).write_text(done.stdout)
    return folder
