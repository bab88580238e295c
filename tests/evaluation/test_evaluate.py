"""What cannot be evaluated is one clear line."""

import json
import sys
from itertools import groupby
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from evaluation import answers
from evaluation.answers import Contestant
from evaluation.engines import _by_vllm, engine, shared
from machine import hardware
from schema.names import samplings
from schema.recipe import RecipeError, load_recipe
from schema.sections import Sampling
from stages.evaluate import write_again
from tests.support import write_lines
from tests.tables import cases
from training import vllm_server
from training.model import load_tokenizer

TINY = "recipes/tiny-arithmetic.yaml"


@cases(__file__, "a_wrong_value_is_a_fault_of_the_recipe")
def test_a_wrong_value_is_a_fault_of_the_recipe(override, message):
    with pytest.raises(RecipeError) as fault:
        load_recipe(TINY, [override], check=())
    (line,) = str(fault.value).splitlines()
    assert message in line


def test_each_benchmark_is_answered_as_it_says_and_has_a_folder_of_its_own(tmp_path, own_file):
    """A set's own settings stand in place of the section's, but those that its function takes
    itself."""
    own_file(
        "my_set.py",
        "def rows(split, samples):\n    return [{'problem': '1?', 'answer': 1}] * samples\n",
    )
    exam = tmp_path / "exam.csv"
    exam.write_text("problem,answer\n1?,1\n")
    entries = [
        "arithmetic",
        {"arithmetic": {"samples": 8, "temperature": 1}},
        {"arithmetic": {"temperature": 0}},
    ]
    entries += [{"my_set.rows": {"samples": 2}}, {str(exam): {"columns": {"answer": "answer"}}}]
    entries += [{str(exam): {"where": {"problem": ["x" * 120]}}}]
    overrides = ["evaluate.temperature=0.6", "evaluate.top_p=0.95", "evaluate.limit=9"]
    overrides += [f"evaluate.benchmarks={entries}"]
    recipe = load_recipe(TINY, overrides, check=())
    asked = samplings(recipe)
    assert list(asked.values())[:4] == [
        Sampling(temperature=0.6, top_p=0.95, limit=9),
        Sampling(8, 1, 0.95, 9),
        Sampling(limit=9),
        Sampling(temperature=0.6, top_p=0.95, limit=9),
    ]
    sampled = "arithmetic-samples-8-temperature-1"
    expected = ["arithmetic", sampled, "arithmetic-temperature-0", "my_set.rows-samples-2"]
    assert list(asked)[:4] == expected
    assert len({each[:100] for each in asked}) == len(entries) and max(map(len, asked)) <= 100
    assert list(asked)[4] == "exam"
    head = answers.answer_settings(Contestant("base", recipe, sampling=asked[sampled]), [], [])
    wanted = (8, 1, 0.95, recipe.seed)
    assert (head["samples"], head["temperature"], head["top_p"], head["seed"]) == wanted


def test_answers_that_were_sampled_otherwise_are_not_reused(tmp_path):
    recipe = load_recipe(TINY, ["evaluate.temperature=0.6"], check=())
    tokenizer, rows = load_tokenizer(recipe), [{"problem": "What is 1 + 1?", "solution": "2"}]

    def there(**own):
        base = Contestant("base", recipe, sampling=recipe.evaluate.sampling(**own))
        return answers.Answers(tmp_path, base, tokenizer, rows)

    head = there().settings
    # as once
    write_lines(tmp_path / "base.jsonl", [{key: head[key] for key in head if key != "top_p"}])
    assert there(limit=1, top_p=1).answers == []
    for key, value in (("top_p", 0.9), ("samples", 2), ("temperature", 0.7)):
        with pytest.raises(RecipeError, match=rf"made with different settings \({key}\): move it"):
            there(**{key: value})


def test_vllm_samples_as_it_is_asked(monkeypatch):
    stand_in(monkeypatch)
    monkeypatch.setattr(sys.modules["vllm"], "SamplingParams", lambda **options: options)
    given = []

    def generate(asked, parameters, **_):
        given.extend(parameters)
        out = SimpleNamespace(token_ids=[5, 0], finish_reason="stop")
        return [
            SimpleNamespace(prompt_token_ids=each["prompt_token_ids"], outputs=[out])
            for each in asked
        ]

    tokenizer = SimpleNamespace(eos_token_id=0, decode=lambda tokens, **_: str(tokens))
    recipe = load_recipe(TINY, ["evaluate.max_new_tokens=9"], check=())
    policy = _by_vllm(SimpleNamespace(generate=generate), None, recipe, tokenizer)
    expected = [("[5]", 1, False, None)] * 2
    assert policy([[1], [2]], 7, Sampling(64, 0.6, 0.95, more={"top_k": 3})) == expected
    same = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 9, "stop_token_ids": [0], "top_k": 3}
    assert given == [same | {"seed": 7}, same | {"seed": 8}]


def refused(message: str, *overrides: str, trained=None):
    """No engine can be had, and a message that matches says why."""
    recipe = load_recipe(TINY, [*overrides], check=())
    with pytest.raises(RecipeError, match=message), engine(recipe, None, [trained], 10):
        pass


def test_vllm_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    refused(r"vllm cannot be imported .* make setup EXTRAS=vllm", "evaluate.engine=vllm")


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


@cases(__file__, "vllm_computes_in_what_training_computes_in")
def test_vllm_computes_in_what_training_computes_in(
    gpu, bfloat16, overrides, computes_in, monkeypatch
):
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
    recorded = answers.answer_settings(Contestant("base", recipe), [], [])["dtype"]
    assert f"--dtype={computes_in}" in served
    assert asked["dtype"] == recorded == computes_in


def test_who_shares_an_engine(tmp_path):
    """With vLLM a base, shown an example or not, and the adapters on it; with transformers the same
    model alone."""
    for name in ("sft", "grpo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text("{}")
    models = [None, None, tmp_path / "sft", tmp_path / "grpo", tmp_path]
    for engines, groups in (("vllm", [4, 1]), ("transformers", [2, 1, 1, 1])):
        recipe = load_recipe(TINY, [f"evaluate.engine={engines}"], check=())
        assert [
            len(list(each)) for _, each in groupby(models, key=lambda model: shared(recipe, model))
        ] == groups


def test_an_adapter_of_another_base_is_refused(tmp_path):
    written = {"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen2.5-Math-1.5B"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(written))
    refused(
        r"is an adapter of Qwen/Qwen2\.5-Math-1\.5B, but the recipe's base model is",
        trained=tmp_path,
    )


def test_a_report_that_cannot_be_written_is_named(tmp_path, capsys):
    folder = tmp_path / "grpo"
    folder.mkdir()
    write_again(folder)
    line = capsys.readouterr().out
    assert line.startswith(f"not written: the report of {folder} (")
    assert "holds no finished run" in line
