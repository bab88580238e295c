"""What cannot be evaluated is one clear line."""

import json
import os
import shutil
import sys
from dataclasses import replace
from itertools import groupby
from types import ModuleType, SimpleNamespace

import pytest
import torch

from evaluation import completions
from evaluation import engines as engine_module
from evaluation.completions import Contestant
from evaluation.engines import Completion, _by_vllm, engine, shared
from machine import hardware
from machine.launch import this_machine
from schema.names import samplings
from schema.recipe import RecipeError, load_recipe
from schema.sections import Sampling
from stages.evaluate import write_again
from tests.support import read_lines, write_lines
from tests.tables import cases, lacking
from training import vllm_server
from training.memory import validation_that_fit
from training.model import load_tokenizer

TINY = "recipes/tiny-arithmetic.yaml"


@cases(__file__, "a_wrong_value_is_a_fault_of_the_recipe")
def test_a_wrong_value_is_a_fault_of_the_recipe(override, names):
    with pytest.raises(RecipeError) as fault:
        load_recipe(TINY, [override])
    assert len(str(fault.value).splitlines()) == 1
    assert lacking(names, fault.value.faults[0].message) == []


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
    recipe = load_recipe(TINY, overrides)
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
    head = completions.completion_settings(
        Contestant("base", recipe, sampling=asked[sampled]), [], []
    )
    wanted = (8, 1, 0.95, recipe.seed)
    assert (head["samples"], head["temperature"], head["top_p"], head["seed"]) == wanted


def test_answers_that_were_sampled_otherwise_are_not_reused(tmp_path):
    recipe = load_recipe(TINY, ["evaluate.temperature=0.6"])
    tokenizer, rows = load_tokenizer(recipe), [{"problem": "What is 1 + 1?", "solution": "2"}]

    def there(**own):
        base = Contestant("base", recipe, sampling=recipe.evaluate.sampling(**own))
        return completions.StoredCompletions(tmp_path, base, tokenizer, rows)

    head = there().settings
    # as once
    write_lines(tmp_path / "base.jsonl", [{key: head[key] for key in head if key != "top_p"}])
    assert there(limit=1, top_p=1).lines == []
    for key, value in (("top_p", 0.9), ("samples", 2), ("temperature", 0.7)):
        with pytest.raises(
            RecipeError, match=rf"was sampled with different settings \({key}\): move it"
        ):
            there(**{key: value})


def test_answers_stay_where_their_weights_are_moved_or_copied(tmp_path):
    recipe = load_recipe(TINY)
    tokenizer, rows = load_tokenizer(recipe), [{"problem": "What is 1 + 1?", "solution": "2"}]

    def completions_of(run):
        return completions.StoredCompletions(
            tmp_path, Contestant("grpo", recipe, run), tokenizer, rows
        )

    run = tmp_path / "a/grpo"
    run.mkdir(parents=True)
    (run / "model.safetensors").write_bytes(b"trained")
    write_lines(tmp_path / "grpo.jsonl", [completions_of(run).settings])
    moved = run.parent.rename(tmp_path / "b") / "grpo"
    assert completions_of(moved).lines == []
    copied = shutil.copytree(moved, tmp_path / "c")
    os.utime(copied / "model.safetensors", (0, 0))
    assert completions_of(copied).lines == []
    (copied / "model.safetensors").write_bytes(b"another")
    assert completions_of(copied).lines == []
    [aside] = tmp_path.glob("grpo.jsonl.*")
    assert not (tmp_path / "grpo.jsonl").exists() and b"weights" in aside.read_bytes()
    write_lines(tmp_path / "grpo.jsonl", [completions_of(moved).settings])
    (moved / "model.safetensors").write_bytes(b"a third")
    assert completions_of(moved).lines == []
    assert len(list(tmp_path.glob("grpo.jsonl.*"))) == 2


def test_stored_answers_are_judged_anew_by_another_verifier(tmp_path, monkeypatch, capsys):
    recipe = load_recipe(TINY)
    tokenizer = load_tokenizer(recipe)
    rows = [{"problem": f"What is {n} + 1?", "solution": str(n + 1)} for n in range(3)]

    def stored(limit=None):
        base = Contestant("base", recipe, sampling=Sampling(limit=limit))
        return completions.StoredCompletions(tmp_path, base, tokenizer, rows)

    def policy(prompts, seed, sampling):
        return [Completion("<answer>2</answer>", 4, False)] * len(prompts)

    stored().complete(policy)
    monkeypatch.setattr(completions, "judge_version", lambda: "another")
    judge_all = completions.judge_all

    def incorrect_of_all(*arguments, **options):
        verdicts = judge_all(*arguments, **options)
        return [replace(verdict, correct=False) for verdict in verdicts]

    monkeypatch.setattr(completions, "judge_all", incorrect_of_all)
    judged_anew = stored(limit=1)
    assert [answer["correct"] for answer in judged_anew.lines] == [False] * 3
    assert not judged_anew.missing()
    head, *lines = read_lines(judged_anew.file)
    assert head["judge"] == "another" and [line["correct"] for line in lines] == [False] * 3
    assert "1 of 3 verdicts are others" in capsys.readouterr().out
    assert stored().lines == lines
    assert "judged anew" not in capsys.readouterr().out
    monkeypatch.setattr(completions, "judge_version", lambda: "a third")
    write_lines(judged_anew.file, [head, lines[0] | {"id": 9}])
    with pytest.raises(RecipeError, match=r"base\.jsonl is not what an evaluation .* delete it"):
        stored()


def test_a_prompt_that_leaves_no_room_is_not_asked_and_counts_as_not_correct(tmp_path, capsys):
    recipe = load_recipe(TINY)
    problems = ["What is 1 + 1?", "1 + 1? " * 100, "What is 2 + 2?"]
    rows = [{"problem": problem, "solution": "2"} for problem in problems]
    base = Contestant("base", recipe)
    exam = completions.StoredCompletions(
        tmp_path / "exam", base, load_tokenizer(recipe), rows, room=100
    )
    lengths = [len(ids) for ids in exam.prompts]
    assert exam.longest_prompt == lengths[0] < 100 < lengths[1]
    sent = []

    def policy(prompts, seed, sampling):
        sent.extend(prompts)
        return [Completion("<answer>2</answer>", 4, False)] * len(prompts)

    exam.complete(policy)
    assert sorted(map(len, sent)) == [lengths[0], lengths[2]]
    lines = sorted(read_lines(exam.file)[1:], key=lambda line: line["id"])
    assert [line["correct"] for line in lines] == [True, False, True]
    assert [line["truncated"] for line in lines] == [False, True, False]
    assert "exam base: 1 of 3 prompts leave no room for an answer" in capsys.readouterr().out


def test_long_validation_problems_are_left_out_before_they_are_shared(capsys):
    recipe = load_recipe(TINY)
    rows = [{"problem": problem} for problem in ("1 + 1?", "1 + 1? " * 100, "2 + 2?")]
    fitting = validation_that_fit(recipe, load_tokenizer(recipe), rows)
    assert fitting == [rows[0], rows[2]]
    assert "left out 1 validation problems whose prompts have more than" in capsys.readouterr().out


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
    recipe = load_recipe(TINY, ["evaluate.max_new_tokens=9"])
    policy = _by_vllm(SimpleNamespace(generate=generate), None, recipe, tokenizer)
    expected = [("[5]", 1, False, None)] * 2
    assert policy([[1], [2]], 7, Sampling(64, 0.6, 0.95, more={"top_k": 3})) == expected
    same = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 9, "stop_token_ids": [0], "top_k": 3}
    assert given == [same | {"seed": 7}, same | {"seed": 8}]


def refused(message: str, *overrides: str, trained=None):
    """No engine can be had, and a message that matches says why."""
    recipe = replace(load_recipe(TINY, [*overrides]), machine=this_machine())
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
    recipe = replace(load_recipe(TINY, overrides), machine=this_machine())
    served = vllm_server.command(recipe)
    recorded = completions.completion_settings(Contestant("base", recipe), [], [])["dtype"]
    assert f"--dtype={computes_in} " in served
    assert (asked["dtype"], recorded) == (computes_in, computes_in)


def test_who_shares_an_engine(tmp_path):
    """With vLLM a base, shown an example or not, and the adapters on it; with transformers the same
    model alone."""
    for name in ("sft", "grpo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text("{}")
    models = [None, None, tmp_path / "sft", tmp_path / "grpo", tmp_path]
    for engines, groups in (("vllm", [4, 1]), ("transformers", [2, 1, 1, 1])):
        recipe = load_recipe(TINY, [f"evaluate.engine={engines}"])
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


@pytest.mark.parametrize(
    ("lines", "share"), [(["6800, 8192"], 0.78), (["24000, 24564"], 0.85), ([], 0.85)]
)
def test_vllm_takes_of_the_gpu_what_is_free(lines, share, monkeypatch):
    """A desktop's gpu also shows the desktop, and vLLM would refuse after all the training."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(engine_module, "nvidia_smi", lambda *fields: lines)
    assert engine_module._share_for_vllm() == pytest.approx(share, abs=0.001)
