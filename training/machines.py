"""Several processes and machines: checks what they must have in common, and ends a process of a
group."""

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from console.faults import RecipeError
from schema.sections import flat
from training.run_folder import PACKAGES, RunFolder
from training.writing import remove_unused

ROOMS = ["console", "data", "evaluation", "machine", "rewards"]
ROOMS += ["runs", "schema", "stages", "training"]
LINGER = 15  # seconds in which a process that has lost another waits for its launcher to end it
FAILED = 3  # as a run that stopped rather than go wrong


def is_lost(error: RuntimeError) -> bool:
    """Whether torch says that another process does not answer any more; gloo has no class of its
    own for that."""
    distributed = sys.modules.get("torch.distributed")
    return "gloo/" in str(error) or (
        distributed is not None and isinstance(error, distributed.DistError)
    )


def in_group() -> bool:
    """Whether this process belongs to a process group; where torch was never loaded, to none."""
    distributed = sys.modules.get("torch.distributed")
    return bool(distributed and distributed.is_available() and distributed.is_initialized())


def leave_group():
    """Destroy the process group. gloo's threads abort a process that ends with its group still
    alive, and the launcher calls a finished run failed. A vLLM in this process has groups within
    that group, and would fail at its end without it: they are destroyed first."""
    vllm = sys.modules.get("vllm.distributed")
    if vllm and vllm.model_parallel_is_initialized():
        vllm.destroy_model_parallel()
        vllm.destroy_distributed_environment()
    if in_group():
        sys.modules["torch.distributed"].destroy_process_group()


def leave(code: int):
    """Exit: at once from within a process group, which may wait for a process that is gone."""
    remove_unused()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would fail again when it writes what is buffered at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if in_group():
        os._exit(code)
    sys.exit(code)


def run_facts(folder: RunFolder) -> dict[str, object]:
    """The facts on which the machines of a run must agree before they wait for one another."""
    code = hashlib.sha256()
    root = Path(__file__).parent.parent
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            code.update(file.read_bytes())
    facts = {"stage": folder.path.name, "newest checkpoint": folder.checkpoint}
    facts["hash of the code"] = code.hexdigest()[:12]
    facts["processes"] = os.environ.get("LOCAL_WORLD_SIZE")
    facts |= {name: version(name) for name in PACKAGES}
    return facts | flat(folder.recipe)


def require_same(facts: Callable[[], dict[str, object]]):
    """Refuse a run of several machines that differ in what they must have in common: they would
    average the gradients of different runs. Every process calls it.

    Args:
        facts: returns what they must have in common; not called on a single machine.

    Raises:
        RecipeError: names a machine, what differs, and both values.
    """
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        return
    from accelerate.utils import gather_object

    name = f"machine {os.environ['GROUP_RANK']} ({platform.node()})"
    machines = gather_object([(name, facts())])
    first_name, first = machines[0]
    for later_name, later in machines[1:]:
        keys = [key for key in first | later if first.get(key) != later.get(key)]
        if keys:
            lines = [f"{later_name} and {first_name} have different runs:"]
            lines += [f"  {key}: {later.get(key)} and {first.get(key)}" for key in keys]
            lines.append(
                "give the same command on each, but for --machine_rank, in a folder that all of"
                " them share"
            )
            raise RecipeError(["\n".join(lines)])
