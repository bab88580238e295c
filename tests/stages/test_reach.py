"""What a stranger's recipe, data, model, adapter or run folder cannot do: reach the network, write
outside `outputs/`, run code of its own, take all the time or memory there is, write codes to the
terminal, or end in a stack trace.

Each attack lies in a clone of this repository and is run as `python -m stages x mine.yaml` in a
fork of a process that has the libraries. That process's way to the network is a socket of ours: who
connects is seen.
"""

import importlib
import json
import math
import multiprocessing
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import stage_process
from tests.support import ROOMS, ROOT
from tests.tables import row_cases, yaml_text
from tests.waits import start_command

SECONDS = 30  # for an attack; what is refused takes two
MEMORY = 2 * 2**30  # bytes beyond what the libraries have: this machine is others' too
NO_MEMORY = re.compile(r"MemoryError|malloc of size|allocate memory")
# colours are the libraries'
CODES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;]*m)")

pytestmark = pytest.mark.train  # all of them; CI runs it

# The arena: a clone, and beside it a canary, a home, and what an honest run left ------------------

HOME = Path(tempfile.gettempdir(), f"reach-{os.getpid()}")
ROOM, WHOLE, OUTSIDE = HOME / "room/clone", HOME / "whole", HOME / "room/outside"


class Ended(NamedTuple):
    code: int | None  # None: it had to be killed
    text: str
    reached: bool  # something connected, to the Hub or elsewhere


class Arena:
    """Runs attacks in the clone, and notes who connects meanwhile."""

    def __init__(self):
        self.connections, listening = [], socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._refuse, args=(listening,), daemon=True).start()
        everywhere = f"http://127.0.0.1:{listening.getsockname()[1]}"
        names = ("PATH", "REAL_HOME", "REAL_CHECKOUT")
        environment = {name: os.environ[name] for name in names}
        environment |= {f"{kind}_proxy": everywhere for kind in ("http", "https", "all")}
        environment |= {"HOME": str(ROOM.parent / "home"), "HF_HOME": str(HOME / "huggingface")}
        environment |= {"MPLCONFIGDIR": str(HOME / "matplotlib"), "PYTHONDONTWRITEBYTECODE": "1"}
        # a GPU wants more addresses than MEMORY leaves
        environment |= {"CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "tests.stages.test_reach", str(HOME)]
        pipe = subprocess.PIPE
        self.parent = start_command(
            command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, env=environment
        )

    def _refuse(self, listening: socket.socket):
        while True:
            with listening.accept()[0] as connection:
                self.connections.append(connection)

    def run(self, stage: str, *arguments: str) -> Ended:
        before = len(self.connections)
        job = json.dumps(["stages", [stage, *arguments]])
        print(job, file=self.parent.stdin, flush=True)
        code = json.loads(self.parent.stdout.readline())
        text = ""
        for file in (HOME / "out", HOME / "err"):
            text += file.read_text(errors="backslashreplace")
        return Ended(code, text, len(self.connections) > before)


def serve(home: Path):
    """Fork a process for each job of the input, and answer with its exit code."""
    sys.path[0] = str(home / "room/clone")  # in place of the repository itself
    for each in ["stages", *stage_process.LIBRARIES]:
        importlib.import_module(each)
    for line in sys.stdin:
        arguments = (home, *json.loads(line))
        process = multiprocessing.get_context("fork").Process(target=_attack, args=arguments)
        process.start()
        process.join(SECONDS)
        code = process.exitcode
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it left behind
        process.join(60)
        print(json.dumps(code), flush=True)


def _attack(home: Path, module: str, arguments: list[str]):
    os.setsid()
    most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    importlib.invalidate_caches()  # of the room as it was when the libraries were imported
    room, out, err = (str(home / each) for each in ("room/clone", "out", "err"))
    stage_process._run(module, arguments, room, dict(os.environ), out, err)


@pytest.fixture(scope="module")
def arena():
    """With an honest run, which reaches nothing either: a warm start of two steps, killed after the
    first, and its evaluation."""
    shutil.rmtree(HOME, ignore_errors=True)  # of a process that had this number before
    for each in ROOMS:
        shutil.copytree(ROOT / each, ROOM / each)
    (ROOM.parent / "home/.cache").mkdir(parents=True)
    put(ROOM, "../outside/canary", "sings")
    put(ROOM, "mine.yaml", WARM)
    arena = Arena()
    for stage, arguments in (("sft", ("mine.yaml",)), ("evaluate", JUDGED)):
        ended = arena.run(stage, *arguments)
        assert ended.code == 0 and not ended.reached, ended.text
    (ROOM / "outputs/mine").rename(ROOM.parent / "honest")
    (ROOM.parent / "honest/sft/summary.json").unlink()
    shutil.rmtree(ROOM.parent / "honest/sft/checkpoint-2")
    ROOM.parent.rename(WHOLE)
    yield arena
    arena.parent.kill()
    shutil.rmtree(HOME)


@pytest.fixture
def room(arena) -> Path:
    """The clone, as new."""
    shutil.rmtree(ROOM.parent, ignore_errors=True)
    return shutil.copytree(WHOLE, ROOM.parent) / "clone"


def tree() -> dict[str, tuple]:
    """Everything there is but what runs are for, and the account's own cache."""
    left_out, seen = {ROOM / "outputs", ROOM.parent / "home/.cache"}, {}
    for path in ROOM.parent.rglob("*"):
        if not left_out & {path, *path.parents}:
            status = path.lstat()
            seen[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return seen


# What attacks are made of: recipes, and changes to the clone --------------------------------------

TINY = yaml_text(__file__, "tiny")


def recipe(**sections: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in (TINY | sections).items())


def attacked(row: "Row") -> str | None:
    """The recipe of an attack, where the attack is one."""
    if row.reward:
        return recipe(rewards=f"{{correct_answer: {{weight: 1.0}}, {row.reward}}}")
    if row.train:
        return recipe(data=f"{{train: [{row.train}], validation: 4}}")
    if row.grpo:
        return recipe(grpo=f"{TINY['grpo'][:-1]}, {row.grpo}}}")
    if row.template:
        return recipe(model=json.dumps({"build": "tiny-qwen3", "chat_template": row.template}))
    return row.text if row.sections is None else recipe(**row.sections)


def put(room: Path, name: str, content: object):
    """Write a file with a text, bytes, or an object as JSON."""
    (room / name).parent.mkdir(parents=True, exist_ok=True)
    (room / name).unlink(missing_ok=True)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    (room / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def alter(room: Path, name: str, keys: dict):
    put(room, name, json.loads((room / name).read_text()) | keys)


def gone(room: Path, name: str):
    (room / name).unlink()


def link(room: Path, name: str, to: str):
    put(room, name, "")
    gone(room, name)
    (room / name).symlink_to(to)


def pipe(room: Path, name: str):
    put(room, name, "")
    gone(room, name)
    os.mkfifo(room / name)


def zeros(room: Path, name: str, size: int):
    """Add zeros to a file, which take no room on the disk."""
    (room / name).touch()
    os.truncate(room / name, (room / name).stat().st_size + size)


def copy(room: Path, folder: str, name: str):
    shutil.copytree(room / folder, room / name)


def problems(room: Path, columns: dict):
    row = json.dumps({"problem": "What is 1 + {}?", "answer": "{}"} | columns)
    row = row.replace('"{levels}"', "[" * 900 + "]" * 900)
    put(room, "theirs.jsonl", "".join(row.replace("{}", str(i)) + "\n" for i in range(60)))


def parquet(room: Path, texts: list[str], times: int, metadata: dict[str, bytes]):
    """Write these problems so many times, in next to no room; `metadata`: of its columns and of
    itself."""
    import pyarrow as pa
    import pyarrow.parquet

    order = pa.array(list(range(len(texts))) * times, pa.int32())
    column = pa.DictionaryArray.from_arrays(order, texts)
    fields = [pa.field(name, column.type, metadata=metadata) for name in ("problem", "answer")]
    table = pa.table([column, column], schema=pa.schema(fields, metadata=metadata))
    pa.parquet.write_table(table, room / "theirs.parquet")
    put(room, MINE, recipe(data="{train: [theirs.parquet], validation: 4}"))


def pickled_parquet(room: Path):
    metadata = {"ARROW:extension:name": b"arrow.py_extension_type"}
    metadata |= {"ARROW:extension:metadata": b"cos\nsystem\n"}
    parquet(room, [str(i) for i in range(60)], 1, metadata)


def safetensors(room: Path, name: str, weight: str, shape: list[int]):
    """Write a file of one weight, without its numbers."""
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * math.prod(shape)]}
    header = json.dumps({weight: entry}).encode()
    put(room, name, len(header).to_bytes(8, "little") + header)


def sign(room: Path):
    """Write a manifest that says of a changed checkpoint what it holds."""
    from runs.state import write_manifest

    write_manifest(room / CHECKPOINT)


CHANGES = [put, alter, gone, link, pipe, zeros, copy, problems, pickled_parquet]
BY_NAME = {change.__name__: change for change in [*CHANGES, safetensors, sign]}

# Attacks, and what each kind of them begins with -------------------------------------------------

WARM = recipe(sft=yaml_text(__file__, "sft"))
WARM += "adapter: {r: 4, target_modules: all-linear}\n"
THEIRS = "../stranger/mine.yaml"
MINE, JUDGED, RUN = "mine.yaml", ("mine.yaml", "--validation"), "outputs/mine/sft"
CHECKPOINT, VALIDATION = f"{RUN}/checkpoint-1", "outputs/mine/eval/validation"
THEIR_DATA = [("put", MINE, recipe(data="{train: [theirs.jsonl], validation: 4}"))]
THEIR_RUN = [("copy", "../honest", "outputs/mine"), ("put", MINE, WARM)]
THEIR_MODEL = [("copy", "outputs/models/tiny-qwen3-seed42", "theirs")]
THEIR_MODEL += [("put", MINE, recipe(model="{name_or_path: theirs}"))]
THEIR_ADAPTER = [("copy", "../honest/sft", "theirs"), ("put", MINE, WARM)]
# What each kind begins with; the place that a refusal names; the stage, and what it is given.
KINDS = {
    "recipe": ([], MINE, "grpo", THEIRS),  # the others are the user's own, inside the tree
    "data": (THEIR_DATA, "", "grpo", MINE),
    "check": (THEIR_DATA, "", "check", MINE),
    "model": (THEIR_MODEL, "", "grpo", MINE),
    "adapter": (THEIR_ADAPTER, "theirs", "evaluate", *JUDGED, "--model", "theirs"),
    "run": (THEIR_RUN, RUN, "sft", MINE),
    "report": (THEIR_RUN, VALIDATION, "report", VALIDATION),
}
PAID = "def paid(completions, **columns):\n    return [0.0] * len(completions)\n"
ALIASES = "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefgh"))
TEXTS = {
    "{outside}": str(OUTSIDE),
    "{theirs}": THEIRS,
    "{checkpoint}": CHECKPOINT,
    "{validation}": VALIDATION,
    "{title}": "\x1b]0;x\x07",
    "{evil}": f"open('{OUTSIDE}/new', 'w')\n" + PAID,
    "{pickle}": f"cos\nsystem\n(S'touch {OUTSIDE}/new'\ntR.",
    "{bomb}": "a: &a [x, x, x]\n" + ALIASES,
    "{deep}": "a: " + "[" * 10_000 + "]" * 10_000,
    "{dotted}": "a." * 3000,
}


def with_texts(value):
    """A value of the table with the texts that its names in braces stand for."""
    if isinstance(value, dict):
        return {with_texts(key): with_texts(value[key]) for key in value}
    if isinstance(value, list):
        return [with_texts(part) for part in value]
    if isinstance(value, str):
        for name, text in TEXTS.items():
            value = value.replace(name, text)
    return value


@dataclass(frozen=True)
class Row:
    """A row of the table of attacks."""

    case: str
    says: str
    harmless: bool = False
    text: str | None = None
    sections: dict | None = None
    grpo: str = ""
    reward: str = ""
    train: str = ""
    template: str = ""
    do: list = field(default_factory=list)


def attack(**columns) -> Row:
    return Row(**with_texts(columns))


@row_cases(__file__, "attacks", attack)
def test_an_attack_is_refused_or_harmless(row, room, arena):
    begin, place, *command = KINDS[row.case.partition(":")[0]]
    if attacked(row) is not None:
        put(room, command[1], attacked(row))
    for change, *arguments in (*begin, *row.do):
        BY_NAME[change](room, *arguments)
    before = tree()
    ended = arena.run(*command)
    print(ended.text)
    assert not ended.reached, "connected to another place"
    assert tree() == before, "wrote elsewhere"
    assert ended.code is not None, f"took more than {SECONDS} s"
    assert not NO_MEMORY.search(ended.text), "took all memory"
    assert "Traceback" not in ended.text
    traces = [file.read_text() for file in room.glob("outputs/*/*/error.txt")]
    assert not any(CODES.search(text) for text in [ended.text, *traces])
    assert not any(str(HOME) in trace for trace in traces), "names the user's folders"
    lines = [line for line in ended.text.splitlines() if row.says in line]
    if row.harmless:
        assert ended.code == 0 and lines
    else:
        assert ended.code in (2, 3, 4)  # 3: a run that had begun; 4: out of memory
        assert any(place in line or "error.txt" in line for line in lines)


def test_what_reaches_out_is_seen(room, arena):
    reach = f"""
    import httpx
    open('{OUTSIDE}/canary', 'w')
    httpx.get('https://example.org')
"""
    put(room, "own.py", PAID.replace("\n", reach, 1))
    put(room, MINE, recipe(rewards="{correct_answer: {weight: 1.0}, own.paid: {}}"))
    before = tree()
    assert arena.run("audit", MINE).reached
    after = tree()
    assert {Path(name).name for name in after if before.get(name) != after[name]} >= {"canary"}
    put(room, MINE, recipe(model="{name_or_path: a/model}"))
    assert arena.run("grpo", MINE).reached  # the Hub


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
