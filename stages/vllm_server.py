"""Start the vLLM server that GRPO samples from where the recipe says `grpo.vllm_mode: server`, and
say when it answers.

The server takes this process's place, so that signals reach it and its exit code is this stage's.
"""

import os
import shutil
import sys
import time
from pathlib import Path

from schema.configs import samples_from_server, setting
from schema.faults import Fault, RecipeError
from schema.hardware import fitted, nvidia_gpus
from schema.launch import require
from schema.recipe import Recipe
from schema.terminal import chain, make_command, say
from stages.cli import run


def main(recipe: Recipe):
    """Start the vLLM server that GRPO samples from, on GPUs of its own, and say when it answers."""
    if not samples_from_server(recipe):
        message = (
            'grpo.vllm_mode: this recipe asks no server (ARGS="grpo.use_vllm=true'
            ' grpo.vllm_mode=server")'
        )
        raise RecipeError([Fault(recipe.place("grpo", "vllm_mode"), message)])
    require(recipe, ("grpo",))

    from training import vllm_server
    from training.model import base_model, checked

    vllm_server.require_free(recipe)
    folder = checked(base_model(recipe), recipe.model.revision)  # vLLM reads it by itself
    recipe = fitted(recipe)
    words = vllm_server.command(recipe, folder)
    environment = vllm_server.ENVIRONMENT | gpus_of_server(recipe)
    program = executable()
    say(
        f"vllm-server: {' '.join(f'{key}={value}' for key, value in environment.items())}"
        f" {' '.join(words)}"
    )
    server = os.getpid()
    if os.fork() == 0:
        announce(recipe, server)
        os._exit(0)
    os.execve(program, words, environment | os.environ)


def executable() -> str:
    """vLLM's program in this environment, whatever the PATH says."""
    beside = Path(sys.executable).with_name("vllm")
    return str(beside) if beside.is_file() else shutil.which("vllm")


def gpus_of_server(recipe: Recipe) -> dict[str, str]:
    """The last of this machine's GPUs, as many as `grpo.vllm_tensor_parallel_size` says; a trainer
    takes the first. Nothing where CUDA_VISIBLE_DEVICES says which, or where there are none.

    Raises:
        RecipeError: none would be left for the trainer.
    """
    there, wanted = len(nvidia_gpus()), setting(recipe, "grpo", "vllm_tensor_parallel_size")
    if not there or "CUDA_VISIBLE_DEVICES" in os.environ:
        return {}
    if wanted >= there:
        message = (
            f"grpo.vllm_tensor_parallel_size: the server would take {wanted} of this machine's"
            f" {there} GPUs, and the trainer needs one; on a machine of its own, say which are the"
            " server's: CUDA_VISIBLE_DEVICES=0"
        )
        raise RecipeError([Fault(recipe.place("grpo", "vllm_tensor_parallel_size"), message)])
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(there - wanted, there)))}


def announce(recipe: Recipe, server: int):
    """Say that the server answers, or that it ended before."""
    from training import vllm_server

    began = time.monotonic()
    while vllm_server.served(recipe) is None:
        if os.getppid() != server:
            print(
                "vllm-server: ended before it answered; its own lines above say why",
                file=sys.stderr,
            )
            return
        time.sleep(1)
    say(f"vllm-server: answers at {vllm_server.url(recipe)} after {time.monotonic() - began:.0f} s")
    if not chain():
        say(
            "next, in another terminal (Ctrl-C in this one ends the server):"
            f" {make_command('grpo', recipe)}"
        )


if __name__ == "__main__":
    run("vllm_server", main)
