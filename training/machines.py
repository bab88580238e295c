"""Several machines: what they must have in common, and what each hears of the others.

Both go over the store through which torch's launchers meet, on the first machine. By themselves they do not hear of one
another's end, and a process waits half an hour for one that is gone (transformers' `ddp_timeout`).
"""

import contextlib
import hashlib
import json
import os
import platform
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import psutil

from schema.faults import RecipeError
from schema.sections import flat
from schema.terminal import clean
from training.checkpoints import write_whole
from training.run_folder import PACKAGES, RunFolder

ROOMS = ("data", "evaluation", "rewards", "schema", "stages", "training")
LATE = 60  # seconds until a file that one machine wrote is seen by the others: NFS keeps what it knows of a folder
SECONDS = 600  # to wait for what the others have to say
PATIENCE = 15  # seconds without the other machines until that is said
EVERY = 2  # seconds between a launcher's signs of life
SILENT = 60  # seconds without one from a machine that is gone
GRACE = 10  # seconds in which a machine's processes may end by themselves, with a message of their own
LINGER = GRACE + 5  # seconds in which a process that has lost another waits for its launcher to end it
FAILED = 3  # as a run that stopped rather than go wrong


def is_lost(error: RuntimeError) -> bool:
    """Whether torch says that another process does not answer any more; gloo has no class of its own for that."""
    distributed = sys.modules.get("torch.distributed")
    return "gloo/" in str(error) or (distributed is not None and isinstance(error, distributed.DistError))


def leave_group():
    """Destroy the process group. gloo's threads abort a process that ends with its group still alive, and the launcher
    calls a finished run failed. A vLLM in this process has groups of its own in that one, and would fail at its end if
    it found that one gone: its own go first."""
    distributed = sys.modules.get("torch.distributed")  # a stage that never loaded torch has no group
    vllm = sys.modules.get("vllm.distributed")
    if vllm and vllm.model_parallel_is_initialized():
        vllm.destroy_model_parallel()
        vllm.destroy_distributed_environment()
    if distributed and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def require_same(folder: RunFolder):
    """Refuse a run whose machines were started with different recipes or code, or do not share its folder: their
    processes would wait for one another, or average the gradients of different runs.

    Raises:
        RecipeError: which machine, and what differs.
    """
    machine, machines = int(os.environ.get("GROUP_RANK", 0)), int(os.environ.get("GROUP_WORLD_SIZE", 1))
    if machines == 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    # Processes that torch's launcher starts again (--max_restarts) must not read what the first ones said.
    attempt = f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    store = _client((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), SECONDS, attempt)
    speaks = os.environ["LOCAL_RANK"] == "0"  # one process for each machine
    mark = folder.path.parent / ".machines"
    if speaks and machine == 0:
        _leave_mark(mark, store)
    everywhere = _exchanged(store, "run", _facts(folder) if speaks else None, machine, machines)
    for other, there in enumerate(everywhere):
        keys = [key for key in there | everywhere[0] if there.get(key) != everywhere[0].get(key)]
        if keys := [key for key in keys if key != "name"]:
            lines = [f"machine {other} ({there['name']}) and machine 0 ({everywhere[0]['name']}) have different runs:"]
            lines += [f"  {key}: {there.get(key)} and {everywhere[0].get(key)}" for key in keys]
            lines.append("give the same command on each, but for --machine_rank, in a folder that all of them share")
            raise RecipeError(["\n".join(lines)])
    seen = _exchanged(store, "seen", {"seen": _sees(mark, store)} if speaks else None, machine, machines)
    if speaks and machine == 0:
        mark.unlink(missing_ok=True)
    if blind := [each for each in range(machines) if not seen[each]["seen"]]:
        which = f"machine {blind[0]} ({everywhere[blind[0]]['name']}) does not see what machine 0 writes"
        raise RecipeError([f"{which}: all machines must have {folder.path} on a disk that they share"])


def _facts(folder: RunFolder) -> dict:
    """What all machines must agree on, by name."""
    root, code = Path(__file__).parent.parent, hashlib.sha256()
    for file in sorted(each for room in ROOMS for each in (root / room).rglob("*.py")):
        code.update(file.read_bytes())
    facts = {"name": platform.node(), "stage": folder.path.name, "hash of the code": code.hexdigest()[:12]}
    facts |= {name: version(name) for name in PACKAGES}
    return facts | {"newest checkpoint": folder.checkpoint, "finished": folder.finished} | flat(folder.recipe)


def _leave_mark(mark: Path, store):
    """A file with a number of this launch; the others look for it."""
    number = os.urandom(8).hex()
    mark.parent.mkdir(parents=True, exist_ok=True)
    write_whole(mark, number)
    store.set("mark", number)


def _sees(mark: Path, store) -> bool:
    number, until = store.get("mark").decode(), time.monotonic() + LATE
    while time.monotonic() < until:
        with contextlib.suppress(OSError):  # none yet, or on NFS that of an earlier launch, removed while it is read
            if mark.read_text(encoding="utf-8") == number:
                return True
        time.sleep(0.5)
    return False


def _exchanged(store, key: str, mine: dict | None, machine: int, machines: int) -> list[dict]:
    """What each machine says, of which one process says it."""
    if mine is not None:
        store.set(f"{key}/{machine}", json.dumps(mine, default=str))
    return [json.loads(each) for each in store.multi_get([f"{key}/{each}" for each in range(machines)])]


def _client(where: tuple[str, int], seconds: float, prefix: str):
    """Of the store at that address and port, with keys of our own."""
    from torch.distributed import PrefixStore, TCPStore

    waits = {"timeout": timedelta(seconds=seconds), "wait_for_workers": False}
    return PrefixStore(f"grpo-recipes/{prefix}", TCPStore(*where, is_master=False, **waits))


class Watch(threading.Thread):
    """In the launcher of one of several machines: tells the others that it lives and how it ended, and ends with the
    first of them.

    Args:
        where: address and port of the first machine; `machine`, `machines`: its number, and how many there are.
        options: what all of them must have been started with, as a text.
        seconds: to wait for the others.
    """

    def __init__(self, where: tuple[str, int], machine: int, machines: int, options: str, seconds: float):
        super().__init__(daemon=True)
        self.where, self.machine, self.machines, self.seconds = where, machine, machines, seconds
        self.told = {"options": options, "name": platform.node(), "launch": uuid.uuid4().hex}
        self.here, self.over, self.store, self.end = threading.Event(), threading.Event(), None, {}

    def run(self):
        waiting, heard = _timer(PATIENCE, self._say_waiting), {}
        try:
            while not self._answers():
                if self.over.wait(0.5):
                    return
            self.store = self._joined()
            self.here.set()
            while not self.over.wait(EVERY):
                # A store whose machine is gone may never answer, whatever its timeout.
                late = _timer(SILENT, self._end_without_store)
                self._tell(beat=time.time())
                for other, there in self._everywhere().items():
                    if there != heard.get(other, (None,))[0]:
                        heard[other] = there, time.monotonic()
                late.cancel()
                if len(heard) == self.machines:
                    waiting.cancel()
                for other, (there, since) in heard.items():
                    self._judge(other, there, time.monotonic() - since)
            self._tell(**self.end)
        except RuntimeError:
            self._end_without_store()
        finally:
            waiting.cancel()

    def wait(self):
        """Wait for the first machine: the end of a process that begins before this machine is in the store would not be
        heard. The first one has its store from torch's launcher.

        Raises:
            DistStoreError: it does not come.
        """
        from torch.distributed import DistStoreError

        if self.machine != 0 and not self.here.wait(self.seconds):
            raise DistStoreError(f"machine 0 ({self.where[0]}) did not answer in {self.seconds:g} s")

    def ended(self, code: int, said: str = ""):
        """Tell the others how this machine's processes ended. The first machine waits until they have heard it, because
        the store ends with it."""
        self.end = {"code": code, "said": said}
        self.over.set()
        if self.store is not None:
            self.join(2 * EVERY)
            if self.machine == 0 and code:
                time.sleep(2 * EVERY)

    def _answers(self) -> bool:
        """Whether the first machine does. torch's own client would pause for up to a minute and a half between its
        attempts."""
        try:
            socket.create_connection(self.where, timeout=EVERY).close()
        except OSError:
            return False
        return True

    def _joined(self):
        """The store, in which this machine has a place."""
        from torch.distributed import TCPStore

        store, mine = _client(self.where, self.seconds, "launchers"), json.dumps(self.told)
        if self.machine == 0:  # the store would end with torch's launcher, before the others have heard why
            self.kept = TCPStore(*self.where, is_master=True, wait_for_workers=False, multi_tenant=True)
        if store.compare_set(f"machine/{self.machine}", "", mine).decode() != mine:
            self._leave(
                f"there is a machine {self.machine} already: two were started with --machine_rank {self.machine}, or "
                "an earlier launch has not ended yet on machine 0",
                2,
            )
        return store

    def _tell(self, **more):
        self.told |= more
        self.store.set(f"machine/{self.machine}", json.dumps(self.told))

    def _everywhere(self) -> dict[int, dict]:
        """What each machine that has come says."""
        keys = {each: f"machine/{each}" for each in range(self.machines)}
        return {each: json.loads(self.store.get(key)) for each, key in keys.items() if self.store.check([key])}

    def _judge(self, other: int, there: dict, silent: float):
        name = f"machine {other} ({there['name']})"
        if there.get("code"):
            self._end(f"{name} ended: {there['said'] or 'its own output says why'}", there["code"])
        elif "code" not in there and silent > SILENT:
            self._end(f"{name} has not been heard of for {SILENT} s; the same commands resume", FAILED)
        elif other == 0 and there["options"] != self.told["options"]:
            what = f"started with {self.told['options']}, but {name} with {there['options']}"
            self._tell(code=2, said=what)
            self._leave(what, 2)

    def _end_without_store(self):
        self._end(f"machine 0 ({self.where[0]}) does not answer any more; the same commands resume", FAILED)

    def _end(self, why: str, code: int):
        """End this machine's processes, if they do not end by themselves."""
        if not self.over.wait(GRACE):
            self._leave(why, code)

    def _leave(self, why: str, code: int):
        print(f"launch: {clean(why)}", file=sys.stderr, flush=True)
        for each in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        os._exit(code)

    def _say_waiting(self):
        where = ":".join(map(str, self.where))
        said = f"launch: waiting for the other machines at {where}, at most {self.seconds:g} s"
        print(said, file=sys.stderr, flush=True)


def _timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer
