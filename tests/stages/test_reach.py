"""What a stranger's recipe, data, model, adapter or run folder cannot do: reach the network, write outside `outputs/`,
run code of its own, take all the time or memory there is, write codes to the terminal, or end in a stack trace.

Each attack lies in a clone of this repository and is run as `python -m stages.x mine.yaml` in a fork of a process that
has the libraries. To that process the Hub, and the proxy to anywhere else, are sockets of ours: who connects is seen.
"""

import importlib
import json
import multiprocessing
import os
import pickle
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import stage_process
from tests.support import ROOMS, ROOT

# What the stages share; they themselves are run anew.
SHARED = [
    "training.model",
    "schema.names",
    "schema.problem_sets",
    "training.train",
    "training.trainer",
    "evaluation.engines",
]
SECONDS = 30  # for an attack; what is refused takes two
MEMORY = 4 * 2**30  # bytes beyond what the libraries have: this machine is others' too
NO_MEMORY = re.compile(r"MemoryError|malloc of size|allocate memory")
CODES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;]*m)")  # colours are the libraries'


pytestmark = pytest.mark.train  # all of them; CI runs it


class Harmless(str):
    """Said of an attack that comes to nothing: the stage ends as if it were not there."""


class Attack(NamedTuple):
    """`write`: puts it into a clone. `says`: a piece of the line it is refused with, which names the `place`."""

    write: Callable[[Path], None]
    says: str
    place: str = "mine.yaml"
    stage: str = "grpo"
    arguments: tuple[str, ...] = ("mine.yaml",)


# The arena -----------------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    code: int | None  # None: it had to be killed
    text: str
    hub: bool  # was connected to
    port: bool


class Arena:
    """Runs attacks in a room, always the same, and notes who connects meanwhile."""

    def __init__(self, home: Path):
        self.home, self.room = home, home / "room/clone"
        self.hub, self.port = (socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2))
        hub, self.proxy = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (self.hub, self.port))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home / "room/home"),
            "CUDA_VISIBLE_DEVICES": "",  # a GPU wants more addresses than MEMORY leaves
            "HF_HUB_OFFLINE": "0",
            "HF_ENDPOINT": hub,  # read when the library is imported: what is forked has it already
            "HF_HOME": str(home / "huggingface"),
            "MPLCONFIGDIR": str(home / "matplotlib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "no_proxy": "127.0.0.1",
            "TRUST_FILES": "trusted.py",
        } | {f"{kind}_proxy": self.proxy for kind in ("http", "https", "all")}

    def start(self):
        command, pipe = [sys.executable, "-m", "tests.stages.test_reach", str(self.room)], subprocess.PIPE
        self.parent = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, env=self.environment)

    def run(self, stage: str, *arguments: str, seconds: float = SECONDS) -> Ended:
        output = [str(self.home / "stdout"), str(self.home / "stderr")]
        job = [f"stages.{stage}", arguments, str(self.room), self.environment, *output]
        self.parent.stdin.write(json.dumps([job, seconds]) + "\n")
        self.parent.stdin.flush()
        seen = set()
        while self.parent.stdout not in seen:
            ready = select.select([self.parent.stdout, self.hub, self.port], [], [])[0]
            for listening in {self.hub, self.port}.intersection(ready):
                listening.accept()[0].close()
            seen.update(ready)
        code = json.loads(self.parent.stdout.readline())
        text = "".join(Path(file).read_text(errors="backslashreplace") for file in output)
        return Ended(code, text, self.hub in seen, self.port in seen)


def serve():
    """Fork a process for each job of the input, and answer with its exit code."""
    sys.path[0] = sys.argv[1]  # in place of the repository itself
    for each in ["stages", *stage_process.LIBRARIES, *SHARED]:
        importlib.import_module(each)
    library_fields = importlib.import_module("schema.library_fields")  # which reads the libraries' sources, once
    list(map(library_fields.fields, library_fields.CLASSES))
    for line in sys.stdin:
        job, seconds = json.loads(line)
        process = multiprocessing.get_context("fork").Process(target=_attack, args=job)
        process.start()
        process.join(seconds)
        code = process.exitcode
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it left behind
        process.join()
        print(json.dumps(code), flush=True)


def _attack(module, arguments, room, environment, *output):
    os.setsid()
    most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    importlib.invalidate_caches()  # of the room as it was when the libraries were imported
    stage_process._run(module, arguments, room, dict(os.environ) | environment, *output)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The code and the tiny model; beside the clone a folder with a canary, and a home."""
    from schema.local_models import built_model

    whole = tmp_path_factory.mktemp("whole")
    for each in ROOMS:
        shutil.copytree(ROOT / each, whole / "clone" / each)
    model = built_model("tiny-qwen3", 42, ROOT / "outputs/models")
    shutil.copytree(model, whole / "clone/outputs/models" / model.name)
    (whole / "home/.cache").mkdir(parents=True)
    (whole / "outside").mkdir()
    (whole / "outside/canary").write_text("sings")
    return whole


@pytest.fixture(scope="module")
def arena(clone, tmp_path_factory):
    """With the outputs of honest runs, which reach nothing either: `mine`, a warm start that was killed after the first
    of its two steps, and its evaluation; `adapter`, a whole one that trained an adapter."""
    arena = Arena(tmp_path_factory.mktemp("arena"))
    (clone / "port").write_text(arena.proxy)
    shutil.copytree(clone, arena.room.parent)
    arena.start()
    for name, text, stage in (("mine", WARM, "sft"), ("adapter", ADAPTED, "sft"), ("mine", WARM, "evaluate")):
        put(f"{name}.yaml", text)(arena.room)
        ended = arena.run(stage, f"{name}.yaml", *["--held-out"] * (stage == "evaluate"))
        assert ended[::2] == (0, False) and not ended.port, ended.text
    shutil.copytree(arena.room / "outputs", clone / "honest")
    (clone / "honest/mine/sft/summary.json").unlink()
    shutil.rmtree(clone / "honest/mine/sft/checkpoint-2")
    yield arena
    arena.parent.stdin.close()
    arena.parent.wait(timeout=10)


@pytest.fixture
def room(clone, arena) -> Path:
    """The arena's clone, as new."""
    shutil.rmtree(arena.room.parent)
    shutil.copytree(clone, arena.room.parent)
    return arena.room


def tree(room: Path) -> dict[str, tuple]:
    """Everything there is but what runs are for, and the account's own cache."""
    left_out = {room / "outputs", room.parent / "home/.cache"}
    every = [each for each in room.parent.rglob("*") if not left_out & {each, *each.parents}]
    return {str(each): (s.st_mode, s.st_size, s.st_mtime_ns) for each in every for s in [each.lstat()]}


# What attacks are made of --------------------------------------------------------------------------------------------

TINY = {
    "model": "{build: tiny-qwen3}",
    "data": "{train: [arithmetic: {rows: 60}], validation: 4}",
    "rewards": "{correct_answer: {weight: 1.0}}",
    "grpo": "{max_steps: 1, per_device_train_batch_size: 4, gradient_accumulation_steps: 1, num_generations: 2, "
    "max_completion_length: 4}",
    "evaluate": "{batch_size: 64, max_new_tokens: 4, control: false}",
}


def recipe(**sections: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in (TINY | sections).items())


def grpo(*keys: str, **sections: str) -> str:
    return recipe(grpo=f"{TINY['grpo'][:-1]}, {', '.join(keys)}}}", **sections)


def reward(name: str) -> str:
    return recipe(rewards=f"{{correct_answer: {{weight: 1.0}}, {name}}}")


def train(*entries: str) -> str:
    return recipe(data=f"{{train: [{', '.join(entries)}], validation: 4}}")


def templated(template: str) -> str:
    return recipe(model=json.dumps({"build": "tiny-qwen3", "chat_template": template}))


TINY_MODEL = "outputs/models/tiny-qwen3-seed42"
WARM = recipe(sft="{max_steps: 2, per_device_train_batch_size: 2, gradient_accumulation_steps: 1, save_steps: 1}")
ADAPTED = WARM + "adapter: {r: 4, target_modules: all-linear}\n"
OF_MODEL, OF_FILE = recipe(model="{name_or_path: theirs}"), train("theirs.jsonl")


def beside(folder: Path) -> Path:
    """The folder of the clone."""
    return next(each.parent for each in (folder, *folder.parents) if each.name == "clone")


def put(name: str, content: object):
    """A file, in the clone or in a folder of it; OUTSIDE is the canary's folder, PORT an address that is watched."""

    def write(folder: Path):
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        if isinstance(text, str):
            text = text.replace("OUTSIDE", str(beside(folder) / "outside"))
            text = text.replace("PORT", (beside(folder) / "port").read_text()).encode()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(text)

    return write


def alter(name: str, **changes):
    return lambda folder: put(name, json.loads((folder / name).read_text()) | changes)(folder)


def pickled(name: str):
    """A pickle that writes beside the canary when it is read."""

    def write(folder: Path):
        class Poison:
            def __reduce__(self):
                return os.system, (f"touch {beside(folder)}/outside/new",)

        put(name, pickle.dumps(Poison(), protocol=2))(folder)

    return write


def pipe(name: str):
    """Whoever opens it waits for ever."""
    return lambda folder: [(folder / name).unlink(missing_ok=True), os.mkfifo(folder / name)]


def link(name: str, to: str | None = None):
    """By default to the canary."""

    def write(folder: Path):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(to or beside(folder) / "outside/canary")

    return write


def gone(name: str):
    return lambda folder: (folder / name).unlink()


def large(name: str, size: int):
    return lambda folder: [(folder / name).touch(), os.truncate(folder / name, size)]


def at(place: str, *changes: Callable[[Path], object]):
    return lambda folder: [change(folder / place) for change in changes]


def given(text: str, *changes: Callable[[Path], object]):
    """A recipe, and files in the clone."""
    return lambda room: [change(room) for change in (put("mine.yaml", text), *changes)]


def rows(number: int = 60, **columns) -> str:
    """A JSONL file; a column's value is every row's, or made from its number."""
    made = {key: value if callable(value) else lambda i, value=value: value for key, value in columns.items()}
    made = {"problem": lambda i: f"What is 1 + {i}?", "answer": lambda i: str(i + 1)} | made
    return "".join(json.dumps({key: value(i) for key, value in made.items()}) + "\n" for i in range(number))


def data(text: object):
    return given(OF_FILE, put("theirs.jsonl", text))


def parquet(texts: list[str], times: int, **told: bytes):
    """These problems so many times, in next to no room; `told`: metadata of its columns and of itself."""

    def write(room: Path):
        import pyarrow as pa
        import pyarrow.parquet

        order = pa.array(list(range(len(texts))) * times, pa.int32())
        columns = [pa.DictionaryArray.from_arrays(order, texts)] * 2
        fields = [pa.field(name, columns[0].type, metadata=told) for name in ("problem", "answer")]
        pa.parquet.write_table(pa.table(columns, schema=pa.schema(fields, metadata=told)), room / "theirs.parquet")
        put("mine.yaml", train("theirs.parquet"))(room)

    return write


def model(*changes: Callable[[Path], object], text: str = OF_MODEL, **config):
    """A copy of the tiny model, changed, or only these keys of its `config.json`."""

    def write(room: Path):
        shutil.copytree(room / TINY_MODEL, room / "theirs")
        at("theirs", alter("config.json", **config), *changes)(room)
        put("mine.yaml", text)(room)

    return write


def tokenizer(**changes):
    return model(alter("tokenizer_config.json", **changes))


def tensor(name: str):
    """One more weight, of no size."""

    def write(theirs: Path):
        file = (theirs / "model.safetensors").read_bytes()
        length = int.from_bytes(file[:8], "little")
        header = json.loads(file[8 : 8 + length])
        header[name] = {"dtype": "F32", "shape": [0], "data_offsets": [len(file) - 8 - length] * 2}
        text = json.dumps(header).encode()
        (theirs / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + file[8 + length :])

    return write


def adapter(*changes: Callable[[Path], object], **config):
    """The adapter of an honest run, changed."""

    def write(room: Path):
        put("mine.yaml", recipe())(room)
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            put(f"theirs/{name}", (room.parent / "honest/adapter/sft" / name).read_bytes())(room)
        at("theirs", alter("adapter_config.json", **config), *changes)(room)

    return write


def run(*changes: Callable[[Path], object], begun: bool = True):
    """The folder of a run that was killed after its first step, or before it."""

    def write(room: Path):
        shutil.copytree(room.parent / "honest/mine", room / "outputs/mine")
        if not begun:
            shutil.rmtree(room / "outputs/mine/sft/checkpoint-1")
        put("mine.yaml", WARM)(room)
        at("outputs/mine/sft", *changes)(room)

    return write


def checkpoint(*changes: Callable[[Path], object]):
    """A run whose checkpoint is another, with a manifest that says so."""

    def told(folder: Path):
        from training.checkpoints import files_of, sha256

        files = {str(each.relative_to(folder)): [each.stat().st_size, sha256(each)] for each in files_of(folder)}
        put("manifest.json", {"step": 1, "files": files})(folder)

    return run(at("checkpoint-1", *changes, told))


def manifest(content: object):
    return run(at("checkpoint-1", put("manifest.json", content)))


def killed(folder: Path):
    """An evaluation, before its last answer."""
    file = folder / "base.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def finished(folder: Path):
    """A run that another stage goes on from."""
    put("summary.json", {"steps": 1})(folder)
    shutil.copytree(folder, folder.with_name("grpo"))


# Attacks -------------------------------------------------------------------------------------------------------------

TRUST = "a recipe may run only"
PAID = "def paid(completions, **columns):\n    return [0.0] * len(completions)\n"
EVIL = "open('OUTSIDE/new', 'w')\n" + PAID
BOMB = "a: &a [x, x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefgh"))
PICKLED = {"ARROW:extension:name": b"arrow.py_extension_type", "ARROW:extension:metadata": b"cos\nsystem\n"}
STATE, INDEX = "trainer_state.json", "model.safetensors.index.json"
LORA = {"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"]}

# The text of a recipe, and what is said of it.
RECIPES = {
    "code: os.system": (reward("os.system: {command: touch OUTSIDE/new}"), TRUST),
    "code: what we import": (reward("data.imports.find_spec: {name: os}"), TRUST),
    "code: data by torch": (train("torch.hub.load: {repo_or_dir: x/y}"), TRUST),
    "code: of a model": (grpo("trust_remote_code: true"), "never run"),
    "code: a kernel": (recipe(model="{build: tiny-qwen3, attn_implementation: a/kernel}"), "'a/kernel' is not one of"),
    "code: a tag": (recipe(prompt="!!python/object/apply:os.system ['touch OUTSIDE/new']"), "a tag"),
    "network: an upload": (grpo("push_to_hub: true"), "a run uploads nothing"),
    "network: wandb in a list": (grpo("report_to: [tensorboard, wandb]"), "sends the run to another machine"),
    "network: another host": (grpo("vllm_server_host: 10.0.0.1"), "sends the run to another machine"),
    "network: a file": (train("'PORT/x.jsonl'"), "there is no such file"),
    "files: a folder above": (recipe(output_dir="outputs/x/../../../outside/x"), "writes outside outputs/"),
    "files: a template": (recipe(sft="{chat_template_path: OUTSIDE/canary}"), "set `model.chat_template`"),
    "files: a base above": ("base: ../outside/canary.yaml\n", "expected a file of this folder"),
    "limits: aliases that multiply": (BOMB, "an alias"),
    "limits: 10,000 levels": ("a: " + "[" * 10_000 + "]" * 10_000, "levels deep"),
    "limits: its own base": ("base: mine.yaml\n", "a circle"),
    "limits: a long text": (templated("{{ 'a' * 10**10 }}"), "takes more than"),
    "words: a code in a key": (grpo(r'"\e]0;x\a": 1'), "unknown key"),
    "words: a template's": (templated("{{ raise_exception('\x1b]0;x\x07') }}"), "fails: TemplateError"),
}
FILES = {
    "a package beside it": (
        given(reward("theirs.modeling.paid: {}"), put("theirs/__init__.py", EVIL), put("theirs/modeling.py", EVIL)),
        TRUST,
    ),
    "code below outputs": (given(reward("outputs.x.evil.paid: {}"), put("outputs/x/evil.py", EVIL)), TRUST),
    "code behind a link": (
        given(reward("mine.evil.paid: {}"), put("outputs/x/evil.py", EVIL), link("mine", "outputs/x")),
        TRUST,
    ),
    "100 MB": (large("mine.yaml", 10**8), "100,000,000 bytes"),
    "a pipe": (pipe("mine.yaml"), "is not a file"),
    "outputs that lead away": (given(recipe(), link("outputs/mine", "../../outside")), "writes outside outputs/"),
}
DATA = {
    "zeros": (given(OF_FILE, link("theirs.jsonl", "/dev/zero")), "there is no such file"),
    "40 GB": (given(OF_FILE, large("theirs.jsonl", 40 * 10**9)), "theirs.jsonl"),
    "codes in a column": (data('{"\\u001b]0;x\\u0007": 1}\n'), "is needed"),
    "images": (data(rows(images=["PORT/x.png"])), "theirs.jsonl"),
    "pickled types": (parquet([f"{i} + 1" for i in range(60)], 1, **PICKLED), Harmless()),
    "a megabyte 6,000 times": (parquet(["1 + 1 = " * 2**17], 6000), "theirs.parquet takes more than"),
}
MODELS = {
    "files: a key as its template": (model(link("chat_template.jinja")), "outside its"),
    "files: a key among its templates": (
        model(link("additional_chat_templates/x.jinja")),
        Harmless(),
    ),
    "files: its vocabulary": (tokenizer(vocab="OUTSIDE/canary", merges="OUTSIDE/canary"), Harmless()),
    "code: its own": (
        model(
            put("evil.py", EVIL),
            alter("config.json", auto_map={f"Auto{k}": "evil.E" for k in ("Config", "ModelForCausalLM")}),
            alter("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.E", "evil.E"]}),
        ),
        Harmless(),
    ),
    "code: a kernel": (model(attn_implementation={"": "a/kernel"}, experts_implementation="a/kernel"), Harmless()),
    "code: pickled": (model(gone("model.safetensors"), pickled("pytorch_model.bin")), "holds no model.safetensors"),
    "network: another's name": (
        model(text=grpo("beta: 0.1", model="{name_or_path: theirs}"), _name_or_path="x/y"),
        Harmless(),
    ),
    "limits: 64 GiB in a layer": (model(vocab_size=2**22, hidden_size=2**12), "asks for"),
    "limits: a pipe for a README": (model(pipe("README.md")), Harmless()),
    "words: a code in its rope": (model(rope_parameters={"rope_type": "\x1b]0;x\x07", "rope_theta": 1e4}), "theirs"),
    "words: a code in a weight": (model(tensor("\x1b]0;x\x07")), "has a weight named"),
}
ADAPTERS = {
    "code: pickled": (adapter(gone("adapter_model.safetensors"), pickled("adapter_model.bin")), "holds no adapter_mod"),
    "code: BOFT": (adapter(peft_type="BOFT"), "only plain LoRA"),
    "limits: a large rank": (adapter(r=4096), "asks for rank"),
    "files: weights elsewhere": (adapter(link("adapter_model.safetensors")), "outside its folder"),
}
RUNS = {
    "files: a linked checkpoint": (run(at("checkpoint-1", link("optimizer.pt"))), "is a link"),
    "files: above": (
        manifest({"files": {"../../../../../outside/canary": [5, "x"]}}),
        Harmless("is missing"),
    ),
    "files: a best one elsewhere": (
        checkpoint(alter(STATE, best_model_checkpoint="OUTSIDE")),
        "in another folder, as the best checkpoint",
    ),
    "limits: piped metrics": (run(pipe("metrics.jsonl")), "metrics.jsonl"),
    "limits: an adapter beside the weights": (
        checkpoint(put("x/adapter_config.json", LORA | {"r": 10**7}), put("x/adapter_model.safetensors", b"\xff" * 9)),
        Harmless("done"),
    ),
    "code: a recipe with a tag": (run(put("recipe.yaml", "a: !!python/name:os.system x\n")), "cannot be read"),
    "code: a pickled optimizer": (checkpoint(pickled("optimizer.pt")), "checkpoint-1"),
    "words: data without sense": (run(put("data.json", "{")), Harmless("data.json was lost")),
}

HELD_OUT, JUDGED, REPORTED = "../eval/held-out", ("mine.yaml", "--held-out"), ("outputs/mine/eval/held-out",)
OF_ADAPTER = (*JUDGED, "--model", "theirs")
ATTACKS = {
    **{f"recipe: {name}": Attack(given(text), says) for name, (text, says) in RECIPES.items()},
    **{f"file: {name}": Attack(*each) for name, each in FILES.items()},
    **{f"data: {name}": Attack(*each, place="") for name, each in DATA.items()},
    **{f"model: {name}": Attack(*each, "theirs", "grpo") for name, each in MODELS.items()},
    **{f"adapter: {name}": Attack(*each, "theirs", "evaluate", OF_ADAPTER) for name, each in ADAPTERS.items()},
    **{f"run: {name}": Attack(*each, "outputs/mine/sft", "sft") for name, each in RUNS.items()},
    # Where another stage reads the same, or goes on to write.
    "evaluate: linked answers": Attack(
        run(at(HELD_OUT, killed, link("base.partial"))), "is a link", "outputs/mine/eval", "evaluate", JUDGED
    ),
    "report: in lists": Attack(
        run(at(HELD_OUT, put("base.jsonl", "[]\n[]\n"))), "base.jsonl", "outputs/mine/eval", "report", REPORTED
    ),
    "merge: a linked folder": Attack(
        run(finished, link("../merged.partial", "../../../outside")), "is a link", "outputs/mine", "merge"
    ),
    "check: codes in problems": Attack(data(rows(problem=lambda i: f"\x1b]0;{i}\x07")), Harmless("ready"), "", "check"),
}
# What is asked of each -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_or_harmless(name, room, arena):
    attack = ATTACKS[name]
    attack.write(room)
    before = tree(room)
    ended = arena.run(attack.stage, *attack.arguments)
    print(ended.text)
    assert not ended.hub, "asked the Hub"
    assert not ended.port, "connected to another place"
    assert tree(room) == before, "wrote elsewhere"
    assert ended.code is not None, f"took more than {SECONDS} s"
    assert not NO_MEMORY.search(ended.text), "took all memory"
    assert "Traceback" not in ended.text
    assert not CODES.search(ended.text)
    lines = [line for line in ended.text.splitlines() if attack.says in line]
    if isinstance(attack.says, Harmless):
        assert ended.code == 0
        assert lines
    else:
        assert ended.code in (2, 3)  # 3: a run that had begun
        assert any(attack.place in line for line in lines)


def test_the_hub_sees_who_asks_it(room, arena):
    put("mine.yaml", recipe(model="{name_or_path: a/model}"))(room)
    assert arena.run("grpo", "mine.yaml")[2:] == (True, False)


def test_what_reaches_out_is_seen(room, arena):
    before = tree(room)
    reach = "    import httpx\n    open('OUTSIDE/canary', 'w')\n    httpx.get('https://example.org')\n"
    given(reward("trusted.paid: {}"), put("trusted.py", PAID.replace("\n", "\n" + reach, 1)))(room)
    assert arena.run("audit", "mine.yaml")[2:] == (False, True)
    after = tree(room)
    assert {Path(name).name for name in after if before.get(name) != after[name]} >= {"canary"}


if __name__ == "__main__":
    serve()
