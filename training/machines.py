"""Several machines: what they must have in common, and the end of a process that has lost the
others."""

import contextlib
import hashlib
import json
import os
import platform
import sys
import time
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from schema.faults import RecipeError
from schema.sections import flat
from training.checkpoints import write_whole
from training.run_folder import PACKAGES, RunFolder
from training.writing import remove_unused

ROOMS = ("data", "evaluation", "rewards", "runs", "schema", "stages", "training")
# seconds until a file that one machine wrote is seen by the others: NFS keeps what it knows of a
# folder
LATE = 60
SECONDS = 300  # to wait for what the others have to say: all were started at once
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
    alive, and the launcher calls a finished run failed. A vLLM in this process has groups of its
    own in that one, and would fail at its end if it found that one gone: its own go first."""
    vllm = sys.modules.get("vllm.distributed")
    if vllm and vllm.model_parallel_is_initialized():
        vllm.destroy_model_parallel()
        vllm.destroy_distributed_environment()
    if in_group():
        sys.modules["torch.distributed"].destroy_process_group()


def leave(code: int, at_once: bool = False):
    """Exit; at once where this is asked or there is a process group, whose threads may abort a
    process that ends with it: the launcher would take that for a crash."""
    remove_unused()
    sys.stdout.flush()
    sys.stderr.flush()
    if at_once or in_group():
        os._exit(code)
    sys.exit(code)


def require_same(folder: RunFolder):
    """Refuse a run whose machines were started with different recipes or code, or do not share its
    folder: their processes would wait for one another, or average the gradients of different runs.
    They meet in the store of torch's launchers, because a process group already needs what they
    must have in common.

    Raises:
        RecipeError: which machine, and what differs.
    """
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        return
    store, rank = _store()
    mark = folder.path.parent / ".machines"
    if rank == 0:
        _leave_mark(mark, store)
    first, *others = everywhere = _exchanged(store, "run", _facts(folder))
    for each in others:
        if keys := [
            key for key in each | first if key != "name" and each.get(key) != first.get(key)
        ]:
            lines = [f"{each['name']} and {first['name']} have different runs:"]
            lines += [f"  {key}: {each.get(key)} and {first.get(key)}" for key in keys]
            lines.append(
                "give the same command on each, but for --machine_rank, in a folder that all of"
                " them share"
            )
            raise RecipeError(["\n".join(lines)])
    seen = _exchanged(store, "seen", _sees(mark, store))
    if rank == 0:
        mark.unlink(missing_ok=True)
    if not all(seen):
        which = f"{everywhere[seen.index(False)]['name']} does not see what machine 0 writes"
        raise RecipeError(
            [f"{which}: all machines must have {folder.path} on a disk that they share"]
        )


def _store():
    """That of torch's launchers, with keys of our own, and this process's rank. Processes that are
    started again (--max_restarts) do not read what the first ones said."""
    from torch.distributed import PrefixStore, rendezvous

    store, rank, _ = next(rendezvous("env://", timeout=timedelta(seconds=SECONDS)))
    return PrefixStore("grpo-recipes", store), rank


def _exchanged(store, key: str, mine) -> list:
    """What each process says, by rank."""
    store.set(f"{key}/{os.environ['RANK']}", json.dumps(mine, default=str))
    ranks = range(int(os.environ["WORLD_SIZE"]))
    return [json.loads(each) for each in store.multi_get([f"{key}/{rank}" for rank in ranks])]


def _facts(folder: RunFolder) -> dict:
    """What all machines must agree on, and the name of this one."""
    root, code = Path(__file__).parent.parent, hashlib.sha256()
    for file in sorted(each for room in ROOMS for each in (root / room).rglob("*.py")):
        code.update(file.read_bytes())
    facts = {
        "name": f"machine {os.environ['GROUP_RANK']} ({platform.node()})",
        "stage": folder.path.name,
    }
    facts |= {
        "processes": os.environ["LOCAL_WORLD_SIZE"],
        "hash of the code": code.hexdigest()[:12],
    }
    facts |= {name: version(name) for name in PACKAGES}
    return (
        facts
        | {"newest checkpoint": folder.checkpoint, "finished": folder.finished}
        | flat(folder.recipe)
    )


def _leave_mark(mark: Path, store):
    """A file with a number of this launch; the others look for it."""
    number = os.urandom(8).hex()
    mark.parent.mkdir(parents=True, exist_ok=True)
    write_whole(mark, number)
    store.set("mark", number)


def _sees(mark: Path, store) -> bool:
    number, until = store.get("mark").decode(), time.monotonic() + LATE
    while time.monotonic() < until:
        with contextlib.suppress(
            OSError
        ):  # none yet, or on NFS that of an earlier launch, removed while it is read
            if mark.read_text(encoding="utf-8") == number:
                return True
        time.sleep(0.5)
    return False
