"""What cannot be evaluated is one clear line."""

import json
import sys
from itertools import groupby
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from evaluation import answers
from evaluation.answers import Contestant
from evaluation.engines import engine, shared
from schema import hardware
from schema.recipe import RecipeError, load_recipe
from training import vllm_server

TINY = "recipes/tiny-arithmetic.yaml"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("evaluate.engine=vlm", "'vlm' is not one of transformers, vllm"),
        ("evaluate.samples=4", "4 greedy answers to a problem would all be the same; set evaluate.temperature"),
        ("evaluate.temperature=-1", "expected a number from 0 to 100, got -1"),
        ("evaluate.benchmarks=[gsm9k]", "unknown data set 'gsm9k'; did you mean gsm8k?"),
        ("evaluate.benchmarks=[no/such.jsonl]", "data set 'no/such.jsonl': there is no such file"),
        ("evaluate.benchmarks=[./mine.json]", "there is no such file"),
        ("evaluate.benchmarks=[arithmetic, arithmetic]", "arithmetic is named 2 times"),
        ("evaluate.benchmarks=[arithmetic: 3]", "expected arguments such as {digits: 2}, got 3"),
        ("evaluate.batch_size=0", "evaluate.batch_size: expected a whole number from 1 to 65,536, got 0"),
        ("evaluate.limit=-5", "evaluate.limit: expected a whole number from 1 up, got -5"),
    ],
)
def test_a_wrong_value_is_a_fault_of_the_recipe(override, message):
    with pytest.raises(RecipeError) as fault:
        load_recipe(TINY, [override], check=())
    (line,) = str(fault.value).splitlines()
    assert message in line


def refused(message: str, *overrides: str, trained=None):
    """No engine can be had, and a message that matches says why."""
    recipe = load_recipe(TINY, [*overrides], check=())
    with pytest.raises(RecipeError, match=message), engine(recipe, None, [trained], 10):
        pass


def test_vllm_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    refused(r"vllm cannot be imported .* make setup EXTRAS=dev,vllm", "evaluate.engine=vllm")


def stand_in(monkeypatch, llm=None, for_cpus=False):
    """In vLLM's place."""
    for name in ("vllm", "vllm.lora", "vllm.lora.request", "vllm.platforms"):
        module = ModuleType(name)
        module.LLM, module.SamplingParams, module.LoRARequest = llm, None, None
        module.current_platform = SimpleNamespace(is_cpu=lambda: for_cpus)
        monkeypatch.setitem(sys.modules, name, module)


def test_vllm_for_gpus_without_a_gpu(monkeypatch):
    stand_in(monkeypatch)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused("this vllm needs a GPU, and there is none", "evaluate.engine=vllm")


@pytest.mark.parametrize(
    ("gpu", "bfloat16", "overrides", "computes_in"),
    [
        (True, True, ["model.dtype=float32"], "bfloat16"),
        (True, True, ["model.dtype=float32", "grpo.bf16=false"], "float32"),
        (True, True, ["model.dtype=float16"], "float16"),
        (True, False, ["model.dtype=float32"], "float32"),
        (False, True, ["model.dtype=float32"], "float32"),
    ],
)
def test_vllm_computes_in_what_training_computes_in(gpu, bfloat16, overrides, computes_in, monkeypatch):
    """Its engine and its server are told so, and the answers say so."""
    asked = {}

    def told(**options):
        asked.update(options)
        raise RuntimeError("that is all")

    stand_in(monkeypatch, told, for_cpus=not gpu)
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr(hardware, "has_arithmetic", lambda _: bfloat16)
    overrides = ["evaluate.engine=vllm", *overrides]
    refused("that is all", *overrides)
    recipe = load_recipe(TINY, overrides, check=())
    served = vllm_server.command(recipe, Path("folder"))
    recorded = answers.settings(Contestant("base", recipe), [], [])["dtype"]
    assert asked["dtype"] == served[served.index("--dtype") + 1] == recorded == computes_in


def test_who_shares_an_engine(tmp_path):
    """With vLLM a base, shown an example or not, and the adapters on it; with transformers the same model alone."""
    for name in ("sft", "grpo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text("{}")
    models = [None, None, tmp_path / "sft", tmp_path / "grpo", tmp_path]
    for engines, groups in (("vllm", [4, 1]), ("transformers", [2, 1, 1, 1])):
        recipe = load_recipe(TINY, [f"evaluate.engine={engines}"], check=())
        assert [len(list(each)) for _, each in groupby(models, key=lambda model: shared(recipe, model))] == groups


def test_an_adapter_of_another_base_is_refused(tmp_path):
    written = {"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen2.5-Math-1.5B"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(written))
    refused(r"is an adapter of Qwen/Qwen2\.5-Math-1\.5B, but the recipe's base model is", trained=tmp_path)
