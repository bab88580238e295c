"""A process of a group: whether it has lost another, and how it ends."""

import atexit
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


def leave_group() -> bool:
    """Destroy the process group, and return whether there was one. A vLLM in this process has
    groups within that group, and would fail at its end without it: they are destroyed first."""
    had_group = in_group()
    vllm = sys.modules.get("vllm.distributed")
    if vllm and vllm.model_parallel_is_initialized():
        vllm.destroy_model_parallel()
        vllm.destroy_distributed_environment()
    if in_group():  # vLLM destroys all, or none
        sys.modules["torch.distributed"].destroy_process_group()
    return had_group


def leave(code: int, has_left_group: bool = False):
    """Exit: at once from within a process group, which may wait for a process that is gone; and
    after it, once the exit handlers have run. gloo's threads live as long as anything refers to the
    group, as DDP does, and abort a process whose interpreter is taken down around them; then the
    launcher calls a finished run failed."""
    remove_unused()
    if has_left_group:
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would fail again when it writes what is buffered at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if has_left_group or in_group():
        os._exit(code)
    sys.exit(code)
