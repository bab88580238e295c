"""A process of a group: whether it has lost another, and how it ends."""

import os
import sys

from runs.files import remove_unused

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
