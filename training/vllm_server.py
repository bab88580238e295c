"""The vLLM server that trl samples from where the recipe says `grpo.vllm_mode: server`: its
command, and if it answers.

trl sends it the weights before each sampling, over NCCL. `vllm serve` offers that only in its
development mode, whose endpoints change the model for whoever reaches them: the server listens on
the one address that the trainer asks.
"""

import contextlib
import errno
import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

from schema.configs import samples_from_server, setting, vllm_dtype
from schema.faults import Fault, RecipeError
from schema.recipe import Recipe
from schema.terminal import is_main_process, make_command, say
from training.model import base_model

# What trl's client wants (trl/generation/vllm_client.py): the weight-transfer engine, the
# log-probabilities of what was really sampled from, and no limit to their number. The last option
# leaves sampling to the recipe, whatever the model's folder says of it.
WANTED = [
    "--weight-transfer-config",
    '{"backend": "nccl"}',
    "--logprobs-mode",
    "processed_logprobs",
]
WANTED += ["--max-logprobs", "-1", "--generation-config", "vllm"]
ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}


def address(recipe: Recipe) -> tuple[str, int]:
    return setting(recipe, "grpo", "vllm_server_host"), setting(recipe, "grpo", "vllm_server_port")


def url(recipe: Recipe) -> str:
    host, port = address(recipe)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def command(recipe: Recipe, folder: Path) -> list[str]:
    """`vllm serve` as trl's client for this recipe wants it. The base model is served, from the
    folder that was looked at; the first thing that a trainer sends is its policy."""
    host, port = address(recipe)
    words = ["vllm", "serve", str(folder), "--host", host, "--port", str(port), *WANTED]
    words += ["--dtype", vllm_dtype(recipe), "--seed", str(recipe.seed)]
    options = {
        "--tensor-parallel-size": "vllm_tensor_parallel_size",
        "--max-model-len": "vllm_max_model_length",
        "--model-impl": "vllm_model_impl",
    }
    for option, key in options.items():
        if (value := setting(recipe, "grpo", key)) is not None:
            words += [option, str(value)]
    # trl's default share leaves room for a trainer on the same GPU; vLLM's own default is for a GPU
    # of its own.
    if "vllm_gpu_memory_utilization" in recipe.grpo:
        words += ["--gpu-memory-utilization", str(recipe.grpo["vllm_gpu_memory_utilization"])]
    return [*words, f"--served-model-name={base_model(recipe)}"]


def require_free(recipe: Recipe):
    """Refuse to start a server on a port that is taken, or on an address that is not this
    machine's.

    Raises:
        RecipeError: names the key of the port, and another way.
    """
    host, port = address(recipe)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            key = "vllm_server_port" if error.errno == errno.EADDRINUSE else "vllm_server_host"
            message = f"grpo.{key}: no server can listen at {host}, port {port}: {error.strerror}"
            raise RecipeError([Fault(recipe.place("grpo", key), message)]) from None


def served(recipe: Recipe) -> str | None:
    """The model that the server serves, or None where none answers."""
    # a proxy knows no 127.0.0.1
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.suppress(
        OSError, ValueError, LookupError, TypeError, http.client.HTTPException
    ):
        opener.open(f"{url(recipe)}/health", timeout=5).close()
        with opener.open(f"{url(recipe)}/v1/models", timeout=5) as answer:
            return json.load(answer)["data"][0]["id"]
    return None


def require_server(recipe: Recipe):
    """Wait, on the first process, until the recipe's server answers, at most
    `grpo.vllm_server_timeout` seconds, before any weight is loaded.

    Raises:
        RecipeError: nothing answers there, or a server of another model.
    """
    if not samples_from_server(recipe):
        return
    wanted = base_model(recipe)  # on every process: one that is built here is waited for
    if not is_main_process():
        return
    limit, began, told = setting(recipe, "grpo", "vllm_server_timeout"), time.monotonic(), False
    starts = make_command("vllm-server", recipe)
    while (found := served(recipe)) is None:
        if time.monotonic() - began > limit:
            message = (
                f"no vLLM server answers at {url(recipe)} within {limit:g} s"
                f" (grpo.vllm_server_timeout): {starts}"
            )
            raise RecipeError([Fault(recipe.place("grpo", "vllm_mode"), message)])
        if not told:
            say(
                f"grpo: waiting for the vLLM server at {url(recipe)}, at most {limit:g} s"
                f" ({starts})"
            )
            told = True
        time.sleep(1)
    if found != wanted:
        message = f"the vLLM server at {url(recipe)} serves {found}, and the recipe trains {wanted}"
        raise RecipeError([Fault(recipe.place("grpo", "vllm_mode"), message)])
