"""The vLLM server that trl samples from where the recipe says `grpo.vllm_mode: server`: the command
that starts it, and the wait until it answers."""

import json
import os
import shlex
import sys
import time
import urllib.request
from http.client import HTTPException

from console.faults import Fault, RecipeError
from console.terminal import is_main_process, say
from schema import SAMPLER
from schema.recipe import Recipe
from schema.settings import vllm_dtype
from training.model import base_model


def command(recipe: Recipe) -> str:
    """A line for a shell: vLLM's own server of the base model, to which a trainer then sends its
    weights. The variable and the last three options are what trl needs of it (its page on vLLM).
    Sampling follows the recipe, not the model's folder.
    """
    grpo = recipe.settings["grpo"]
    model = base_model(recipe)
    options = {
        "host": grpo["vllm_server_host"],
        "port": grpo["vllm_server_port"],
        "dtype": vllm_dtype(recipe),
        "tensor-parallel-size": grpo["vllm_tensor_parallel_size"],
        "max-model-len": grpo["vllm_max_model_length"],
        "model-impl": grpo["vllm_model_impl"],
        # trl's default for training would leave room for a trainer on the same GPU.
        "gpu-memory-utilization": recipe.grpo.get("vllm_gpu_memory_utilization"),
        "seed": recipe.seed,
        "generation-config": "vllm",
        "load-format": "safetensors",
        "served-model-name": model,
        "weight-transfer-config": '{"backend": "nccl"}',
        "logprobs-mode": "processed_logprobs",
        "max-logprobs": -1,
    }
    variables = {"VLLM_SERVER_DEV_MODE": "1", SAMPLER: os.environ[SAMPLER]}
    words = [f"{name}={value}" for name, value in variables.items()]
    words += [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model]
    words += [f"--{name}={value}" for name, value in options.items() if value is not None]
    return shlex.join(words)


def served_model(url: str) -> str | None:
    """The name of the model that the server serves, or None where none answers."""
    # A proxy from the environment does not reach 127.0.0.1.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/v1/models", timeout=5) as answer:
            return json.load(answer)["data"][0]["id"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return None


def require_server(recipe: Recipe):
    """Wait, on the first process, until the recipe's server answers, at most
    `grpo.vllm_server_timeout` seconds, before any weight is loaded.

    Raises:
        RecipeError: nothing answers, or a server of another model.
    """
    if not recipe.samples_from_server:
        return
    model = base_model(recipe)  # on every process: all wait until the first has built it
    if not is_main_process():
        return
    grpo = recipe.settings["grpo"]
    host = grpo["vllm_server_host"]
    if ":" in host:
        host = f"[{host}]"
    url = f"http://{host}:{grpo['vllm_server_port']}"
    seconds = grpo["vllm_server_timeout"]
    say(f"grpo: waiting for the vLLM server at {url}, at most {seconds:g} s")
    deadline = time.monotonic() + seconds
    served = served_model(url)
    while served is None and time.monotonic() < deadline:
        time.sleep(1)
        served = served_model(url)
    if served == model:
        return
    message = f"the vLLM server at {url} serves {served}, and the recipe trains {model}"
    if served is None:
        message = (
            f"no vLLM server answers at {url} within {seconds:g} s (grpo.vllm_server_timeout);"
            f" start it: {command(recipe)}"
        )
    raise RecipeError([Fault(recipe.place("grpo", "vllm_mode"), message)])
