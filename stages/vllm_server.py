"""Print the command that starts the vLLM server of a recipe with `grpo.vllm_mode: server`, and run
it in this process's place, so that signals reach the server and its exit code is this stage's."""

import os
import shlex
import sys
from pathlib import Path

from console.faults import Fault, RecipeError
from console.terminal import make_command, say
from machine.hardware import nvidia_gpus
from machine.launch import require, to_machine
from schema.configs import samples_from_server, setting
from schema.recipe import Recipe
from schema.stages import chain
from stages.cli import run


def main(recipe: Recipe):
    """Print the command of the vLLM server that GRPO samples from, and run it."""
    if not samples_from_server(recipe):
        message = (
            'grpo.vllm_mode: this recipe asks no server (ARGS="grpo.use_vllm=true'
            ' grpo.vllm_mode=server")'
        )
        raise RecipeError([Fault(recipe.place("grpo", "vllm_mode"), message)])
    require(recipe, ("grpo",))

    from training import vllm_server
    from training.model import base_model, checked

    folder = checked(base_model(recipe), recipe.model.revision)  # vLLM reads it by itself
    # flashinfer would compile its sampler with nvcc, which most machines lack.
    environment = {"VLLM_USE_FLASHINFER_SAMPLER": "0"} | server_gpus(recipe)
    words = vllm_server.command(to_machine(recipe), folder)
    variables = [f"{name}={value}" for name, value in environment.items()]
    say(f"vllm-server: {' '.join(variables)} {shlex.join(words)}")
    if not chain():
        say(
            f"next, in another terminal, which waits for the server: {make_command('grpo', recipe)}"
        )
    program = Path(sys.executable).with_name("trl")
    os.execve(program, words, environment | os.environ)


def server_gpus(recipe: Recipe) -> dict[str, str]:
    """The last of this machine's GPUs, as many as `grpo.vllm_tensor_parallel_size` says, as a
    variable of the environment; a trainer takes the first. Empty where the variable is set.

    Raises:
        RecipeError: no GPU remains for the trainer.
    """
    count = len(nvidia_gpus())
    size = setting(recipe, "grpo", "vllm_tensor_parallel_size")
    if count == 0 or "CUDA_VISIBLE_DEVICES" in os.environ:
        return {}
    if size >= count:
        message = (
            f"grpo.vllm_tensor_parallel_size: the server would take {size} of this machine's"
            f" {count} GPUs, and the trainer needs one; on a machine of its own, say which are the"
            " server's: CUDA_VISIBLE_DEVICES=0"
        )
        raise RecipeError([Fault(recipe.place("grpo", "vllm_tensor_parallel_size"), message)])
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count - size, count)))}


if __name__ == "__main__":
    run("vllm_server", main)
