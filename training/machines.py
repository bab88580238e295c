"""Several machines: what they must have in common, and what each hears of the others.

Both go over the store through which torch's launchers meet, on the first machine. By themselves they do not hear of one
another's end, and a process waits half an hour for one that is gone (transformers' `ddp_timeout`).
"""

import contextlib
import hashlib
import json
import os
import platform
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import psutil

from schema.faults import RecipeError
from schema.sections import flat
from schema.terminal import clean
from training.checkpoints import write_whole
from training.run_folder import PACKAGES, RunFolder, unwritable

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


def require_same(folder: RunFolder):
    """Refuse a run whose machines were started with different recipes or code, or do not share its folder: their
    processes would wait for one another, or average the gradients of different runs.

    Raises:
        RecipeError: which machine, and what differs.
    """
    machine, machines = int(os.environ.get("GROUP_RANK", 0)), int(os.environ.get("GROUP_WORLD_SIZE", 1))
    if machines == 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    store = _client(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), SECONDS)
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
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        write_whole(mark, number)
    except OSError as error:
        raise RecipeError([unwritable(mark.parent, error)]) from None
    store.set("mark", number)


def _sees(mark: Path, store) -> bool:
    number, until = store.get("mark").decode(), time.monotonic() + LATE
    while not mark.is_file() or mark.read_text(encoding="utf-8") != number:
        if time.monotonic() > until:
            return False
        time.sleep(0.5)
    return True


def _exchanged(store, key: str, mine: dict | None, machine: int, machines: int) -> list[dict]:
    """What each machine says, of which one process says it."""
    if mine is not None:
        store.set(f"{key}/{machine}", json.dumps(mine, default=str))
    return [json.loads(each) for each in store.multi_get([f"{key}/{each}" for each in range(machines)])]


def _client(address: str, port: int, seconds: float):
    from torch.distributed import PrefixStore, TCPStore

    store = TCPStore(
        address, port, is_master=False, timeout=timedelta(seconds=seconds), wait_for_workers=False, multi_tenant=True
    )
    return PrefixStore("grpo-recipes", store)


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
        self.over, self.store = threading.Event(), None

    def run(self):
        try:
            with self._unless(PATIENCE, self._say_waiting):
                self.store = self._met()
        except RuntimeError:  # torch's launcher waits as long, and says so
            return
        heard = [("", 0.0)] * self.machines
        try:
            while not self.over.wait(EVERY):
                # A store whose machine is gone may never answer, whatever its timeout.
                with self._unless(SILENT, self._end_without_store):
                    self._tell(beat=time.time())
                    everywhere = self._all()
                for other, there in enumerate(everywhere):
                    if there != heard[other][0]:
                        heard[other] = (there, time.monotonic())
                    self._judge(other, there, time.monotonic() - heard[other][1])
        except RuntimeError:
            self._end_without_store()

    def ended(self, code: int, said: str = ""):
        """Tell the others how this machine's processes ended. The first machine waits until they have heard it, because
        the store ends with it."""
        self.over.set()
        if self.store is not None:
            telling = threading.Thread(target=self._tell, kwargs={"code": code, "said": said}, daemon=True)
            telling.start()
            telling.join(2 * EVERY)
            if self.machine == 0 and code:
                time.sleep(2 * EVERY)

    def _met(self):
        """The store, once all are there; they may not have been started in different ways."""
        from torch.distributed import TCPStore

        store, mine = _client(*self.where, self.seconds), json.dumps(self.told)
        if self.machine == 0:  # the store would end with torch's launcher, before the others have heard why
            self.kept = TCPStore(*self.where, is_master=True, wait_for_workers=False, multi_tenant=True)
        if store.compare_set(f"machine/{self.machine}", "", mine).decode() != mine:
            self._leave(f"two machines were started with --machine_rank {self.machine}", 2)
        first = json.loads(store.get("machine/0"))
        if first["options"] != self.told["options"]:
            what = f"started with {self.told['options']}, but machine 0 ({first['name']}) with {first['options']}"
            store.set(f"machine/{self.machine}", json.dumps(self.told | {"code": 2, "said": what}))
            self._leave(what, 2)
        for other in range(self.machines):
            self._judge(other, json.loads(store.get(f"machine/{other}")), 0)
        return store

    def _tell(self, **more):
        self.told |= more
        with contextlib.suppress(RuntimeError):  # the next answer that does not come says more
            self.store.set(f"machine/{self.machine}", json.dumps(self.told))

    def _all(self) -> list[dict]:
        return [json.loads(each) for each in self.store.multi_get([f"machine/{i}" for i in range(self.machines)])]

    def _judge(self, other: int, there: dict, silent: float):
        name = f"machine {other} ({there['name']})"
        if there.get("code"):
            self._end(f"{name} ended: {there['said'] or 'its own output says why'}", there["code"])
        elif "code" not in there and silent > SILENT:
            self._end(f"{name} has not been heard of for {SILENT} s; the same commands resume", FAILED)

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
        print(
            f"launch: waiting for the other machines at {where}, at most {self.seconds:g} s",
            file=sys.stderr,
            flush=True,
        )

    @contextlib.contextmanager
    def _unless(self, seconds: float, late: Callable[[], None]) -> Iterator[None]:
        """`late` is called if the block takes longer."""
        timer = threading.Timer(seconds, late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
