"""What the house advises in its messages is there: commands, their options, keys and values. And
advice that ends in a resumed run is followed."""

import ast
import re
import shutil
from dataclasses import fields
from functools import cache

import pytest

from runs.state import write_manifest
from schema import configs
from schema.sections import OWN_SECTIONS
from stages.table import FOR_ALL, TARGETS
from tests.support import CHAIN, ROOT, read_recipe, refused, run_stage, same_weights
from tests.test_rooms import FILES, tree

# The functions whose messages advise to resume a run, and the file of the test that does.
FOLLOWED = {
    "_call": "docs/test_judge.py",
    "_run": "stages/test_methods.py",
    "_leave_after_signal": "faults/test_interrupted.py",
    "_remedy": "test_advice.py",
    "ended_by_signal": "faults/test_interrupted.py",
    "conflict": "runs/test_identity.py",
    "mistakes_reported": "faults/test_interrupted.py",
    "require_weights": "test_advice.py",
    "resume_advice": "faults/test_stopped.py",
    "unwritten": "test_advice.py",
}
PROSE = {"every", "it", "room", "several", "target", "the"}  # English makes them
OPTION = r"\b([A-Z][A-Z_]{2,})=(?=\S)"
VALUE = r"(true|false|null|[a-z]*-?\d[\w.-]*|\[[^\]…]*\]|transformers|vllm|server|all-linear)"


def text_of(node: ast.AST) -> str:
    """A text as a file has it, with … for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else "…"


@cache
def messages() -> dict[str, str]:
    """The texts of every file of the house, without docstrings, by their places."""
    texts = {}
    for file in FILES:
        parts = set()
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.JoinedStr):
                parts.update(map(id, node.values))
            elif isinstance(node, ast.Expr):
                parts.add(id(node.value))
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in parts:
                texts[f"{file}:{node.lineno}:{node.col_offset}"] = text_of(node)
    return texts


def named(pattern: str) -> dict[tuple, str]:
    """What a pattern finds in the messages, and the place of its last message."""
    return {
        groups: place for place, text in messages().items() for groups in re.findall(pattern, text)
    }


def reads(target: str, option: str) -> bool:
    """Whether a target of make reads an option, or passes it on."""
    return option in TARGETS[target].variables or bool(FOR_ALL.fullmatch(option))


def test_every_command_that_a_message_names_is_there_and_reads_its_options():
    commands = named(r"\bmake ([a-z][\w-]*)((?: [A-Z_]+=[^ `]+)*)")
    commands |= named(r"\bmake_(?:command|line)\(\"([\w-]+)\"()")
    assert len(commands) > 15
    for (target, words), place in commands.items():
        assert target in TARGETS.keys() | PROSE, place
        assert all(reads(target, option) for option in re.findall(OPTION, words)), place


def test_every_option_and_variable_that_a_message_names_is_read():
    source = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in FILES)
    read = re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", source)
    read.append("LD_LIBRARY_PATH")  # by the system
    options = named(OPTION)
    assert len(options) > 10
    for name, place in options.items():
        assert name in read or any(reads(target, name) for target in TARGETS), f"{place}: {name}"


def test_every_key_that_a_message_names_is_one_of_a_recipe_and_takes_the_value():
    sections = {name: {field.name for field in fields(of)} for name, of in OWN_SECTIONS.items()}
    sections |= {name: set(configs.fields(name)) for name in configs.SECTIONS}
    of_files = {"json", "js", "md", "jsonl", "safetensors", "weight"}  # data.json is no key
    keys = named(rf"\b({'|'.join(sections)})\.([a-z]\w*[a-z0-9])\b(?:[:=] ?{VALUE}(?![\w.]))?")
    assert len(keys) > 30 and any(value for _, _, value in keys)
    for (section, key, value), place in keys.items():
        assert key in sections[section] | of_files, f"{place}: {section}.{key}"
        if value:
            _, faults = read_recipe("recipes/tiny-arithmetic.yaml", [f"{section}.{key}={value}"])
            refusals = [fault for fault in faults if f"{section}.{key}: expected" in fault.message]
            assert refusals == [], place


def texts_where(pattern: str) -> dict[str, str]:
    """The texts of each function of the house where a pattern is found, without its docstring."""
    texts = {}
    for node in [node for file in FILES for node in ast.walk(tree(file))]:
        if isinstance(node, ast.FunctionDef):
            strings = [text_of(part) for part in ast.walk(node) if isinstance(part, ast.Constant)]
            if re.search(pattern, f"{node.name}: {ast.unparse(node.body[1:])}"):
                texts[node.name] = " ".join(strings[1:])
    return texts


def test_who_advises_to_resume_a_run_is_followed():
    advice = r"same command (resumes|goes on)|goes on from its last|Or train it on"
    functions = texts_where(advice)
    assert functions.keys() == FOLLOWED.keys()
    for file in FOLLOWED.values():
        assert re.search(r"run_stage|Started", (ROOT / "tests" / file).read_text(encoding="utf-8"))


def test_what_ends_a_run_advises_what_the_next_command_accepts():
    """Each key of a stage that such a message names is free to change, or said to make another
    run; the batch may be split anew."""
    texts = texts_where(r"raise RunStopped|return RunStopped|^(out_of_memory|gamed):")
    assert {"_require_finite", "out_of_memory", "_score", "gamed"} <= texts.keys()
    keys = set()
    for function, text in texts.items():
        for key in set(re.findall(r"[a-z]+_[a-z_]+", text)) & configs.fields("grpo").keys():
            keys.add(key)
            is_free = key in (*configs.FREE_KEYS, *configs.SPLIT)
            assert is_free or "output_dir" in text, f"{function}: {key}"
    assert {"save_total_limit", "learning_rate", "max_grad_norm"} <= keys


PAY = """
import os
BATCHES = 0

def pay(completions, **columns):
    global BATCHES
    BATCHES += 1
    folder = os.environ.get("MOVED")
    if folder and BATCHES == 3:
        os.rename(folder, folder + "-elsewhere")
    assert BATCHES < 3
    return [float(len(c[0]["content"]) + i % 2) for i, c in enumerate(completions)]
"""


@pytest.mark.train
def test_each_advice_to_resume_a_run_resumes_it(tmp_path, own_file):
    """A folder that was moved while it trained, put back; a reward that fails, corrected; weights
    that were deleted; a checkpoint that cannot be loaded."""
    run = tmp_path / "grpo"
    settings = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", *CHAIN, "sft=null"]
    settings += ["rewards={paid.pay: {weight: 1.0}}", "grpo.max_steps=6"]
    settings += ["grpo.per_device_train_batch_size=8", "grpo.num_generations=4"]

    def stopped(advice: str, **environment: str):
        ended = run_stage("grpo", *settings, check=False, AUDIT="off", **environment)
        assert ended.returncode == 3 and re.search(advice, ended.stderr), ended.stderr

    def resumed(step: int, **environment: str):
        printed = run_stage("grpo", *settings, AUDIT="off", **environment).stdout
        assert f"{run}/checkpoint-{step}" in printed

    own_file("paid.py", PAY)
    stopped(f"{run} was moved or removed: put it back, and the same", MOVED=str(run))
    (tmp_path / "grpo-elsewhere").rename(run)
    stopped("correct the function, and the same command resumes the run")
    own_file("paid.py", PAY.replace("< 3", "< 9"))
    resumed(4)
    (tmp_path / "whole").mkdir()
    (run / "model.safetensors").rename(tmp_path / "whole/model.safetensors")
    assert f"or delete {run}/summary.json, and `make grpo" in refused("grpo", *settings)
    (run / "summary.json").unlink()
    optimizer = run / "checkpoint-6/optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:999])
    write_manifest(optimizer.parent)
    stopped(rf"{run}/checkpoint-6 cannot be resumed .*: delete it, and the same command resumes")
    shutil.rmtree(optimizer.parent)
    resumed(4, HOME=str(tmp_path))  # as a container begins that was preempted
    assert same_weights(run, tmp_path / "whole")
