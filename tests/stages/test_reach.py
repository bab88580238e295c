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


pytestmark = pytest.mark.slow  # all of them; CI runs it


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
OF_BENCHMARK = recipe(evaluate="{benchmarks: [theirs.jsonl], batch_size: 64, max_new_tokens: 4, control: false}")


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


def data(text: object, of: str = OF_FILE):
    return given(of, put("theirs.jsonl", text))


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


def away(folder: Path):
    shutil.rmtree(folder)
    link(folder.name, str(beside(folder) / "outside"))(folder.parent)


def killed(folder: Path):
    """An evaluation, before its last answer."""
    file = folder / "base.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def finished(folder: Path):
    """A run that another stage goes on from."""
    put("summary.json", {})(folder)
    shutil.copytree(folder, folder.with_name("grpo"))


# Attacks -------------------------------------------------------------------------------------------------------------

YOURS = "is not a file of yours"
PARTIAL = "import os\nfrom functools import partial\np = partial(os.system, 'touch OUTSIDE/new')\n"
PAID = "def paid(completions, **columns):\n    return [0.0] * len(completions)\n"
EVIL = "open('OUTSIDE/new', 'w')\n" + PAID + "class E:\n    pass\n"
BOMB = "a: &a [x, x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefgh"))
PICKLED = {"ARROW:extension:name": b"arrow.py_extension_type", "ARROW:extension:metadata": b"cos\nsystem\n"}
EVERYTHING = grpo("push_to_hub: true", "report_to: wandb", output_dir="OUTSIDE/x")
EMBEDDED = OF_MODEL + WARM.splitlines()[-1] + "\nadapter: {r: 4, target_modules: [q_proj, embed_tokens]}\n"
KERNEL = alter("config.json", attn_implementation="a/kernel")
PARTIAL_MERGE = link("../merged.partial", "../../../outside")
PARTIAL_FILE = at("..", put("merged.partial/x", "x"), link("merged.partial/config.json"))
STATE, INDEX = "trainer_state.json", "model.safetensors.index.json"
PREPEND = {"type": "Prepend", "prepend": "a" * 10**6}
DEEP = "[" * 900 + "]" * 900

# The text of a recipe, and what is said of it.
RECIPES = {
    "trl's uploader": (reward("trl.trainer.grpo_trainer.CommitScheduler: {repo_id: x/y, folder_path: OUTSIDE}"), YOURS),
    "a repository": (reward("trl.trainer.grpo_trainer.create_repo: {repo_id: x/y, token: t}"), YOURS),
    "trl's client": (reward("trl.generation.vllm_client.VLLMClient: {base_url: PORT}"), YOURS),
    "what trl's rewards import": (reward("trl.rewards.os: {}"), "trl documents no such reward"),
    "os.system": (reward("os.system: {command: touch OUTSIDE/new}"), YOURS),
    "subprocess": (reward("subprocess.run: {args: [touch, OUTSIDE/new]}"), YOURS),
    "builtins": (reward("builtins.exec: {}"), YOURS),
    "the running program": (reward("__main__.main: {}"), "that do not begin with _"),
    "a dunder": (reward("data.imports.__loader__: {}"), "that do not begin with _"),
    "what we import": (reward("data.imports.find_spec: {name: os}"), "it is written in importlib.util"),
    "a module we import": (reward("data.imports.importlib.import_module: {name: os}"), "No module named"),
    "a function of ours": (reward("training.checkpoints.write_whole: {file: OUTSIDE/x}"), "takes no `completions`"),
    "a class of ours": (reward("training.guards.GuardedReward: {}"), "is not a function written in"),
    "data by os": (train("os.system: {command: touch OUTSIDE/new}"), YOURS),
    "data by torch": (train("torch.hub.load: {repo_or_dir: x/y}"), YOURS),
    "a benchmark by shutil": (recipe(evaluate="{benchmarks: [shutil.rmtree: {path: OUTSIDE}]}"), YOURS),
    "data on the Hub": (recipe(data="{train: [gsm8k], dir: 'hf://datasets/x/y'}"), "data.dir: expected a folder"),
    "data on the web": (recipe(data="{train: [gsm8k], dir: 'PORT/x'}"), "data.dir: expected a folder"),
    "a file on the web": (train("'PORT/x.jsonl'"), "there is no such file"),
    "a file on the Hub": (train("'hf://datasets/x/y.parquet'"), "there is no such file"),
    "a folder above": (recipe(output_dir="../../x"), "writes outside outputs/"),
    "a folder elsewhere": (recipe(output_dir="OUTSIDE/x"), "writes outside outputs/"),
    "the home": (recipe(output_dir="~/x"), "writes outside outputs/"),
    "in and out": (recipe(output_dir="outputs/x/../../../outside/x"), "writes outside outputs/"),
    "a kernel": (recipe(model="{build: tiny-qwen3, attn_implementation: a/kernel}"), "'a/kernel' is not one of"),
    "flash attention": (recipe(model="{build: tiny-qwen3, attn_implementation: flash_attention_2}"), "flash_attn"),
    "wandb": (grpo("report_to: wandb"), "sends the run to another machine"),
    "wandb in a list": (grpo("report_to: [tensorboard, wandb]"), "sends the run to another machine"),
    "wandb behind none": (grpo("report_to: [none, wandb]"), "is not one of none, tensorboard"),
    "a space": (grpo("trackio_space_id: x/y"), "a run uploads nothing"),
    "an upload": (grpo("push_to_hub: true"), "a run uploads nothing"),
    "a name on the Hub": (grpo("hub_model_id: x/y"), "a run uploads nothing"),
    "a token": (grpo("hub_token: hf_x"), "keep the token in the environment"),
    "completions to the Hub": (grpo("log_completions_hub_repo: x/y"), "a run uploads nothing"),
    "another host": (grpo("vllm_server_host: 10.0.0.1"), "sends the run to another machine"),
    "every address of this machine": (grpo("vllm_server_host: 0.0.0.0"), "opens a server to it: only the command line"),
    "another host's address": (grpo("vllm_server_base_url: PORT"), "set vllm_server_host"),
    "deepspeed": (grpo("deepspeed: {zero_optimization: {stage: 3}}"), "name a launcher"),
    "a compiler": (grpo("torch_compile_backend: x"), "it starts compilers"),
    "processes": (grpo("dataloader_num_workers: 10000"), "is not set here"),
    "code of a model": (grpo("trust_remote_code: true"), "never run"),
    "a template elsewhere": (recipe(sft="{chat_template_path: OUTSIDE/canary}"), "set `model.chat_template`"),
    "arguments of a model": (grpo("model_init_kwargs: {trust_remote_code: true}"), "set the keys of `model`"),
    "code that generates": (grpo("generation_kwargs: {custom_generate: x/y}"), "unknown key 'custom_generate'"),
    "a schedule's optimizer": (grpo("lr_scheduler_kwargs: {optimizer: x}"), "unknown key 'optimizer'"),
    "megatron": (recipe(adapter="{megatron_core: this}"), "it imports the modules it names"),
    "auto_mapping": (recipe(adapter="{auto_mapping: {parent_library: this}}"), "it imports the modules it names"),
    "corda": (recipe(adapter="{corda_config: {cache_file: OUTSIDE/x}}"), "it reads or writes files"),
    "layers without end": (recipe(adapter="{layer_replication: [[0, 100000]]}"), "it reads or writes files"),
    "a slow expression": (recipe(adapter="{target_modules: '(a+)+$'}"), "adapter.target_modules"),
    "aliases that multiply": (BOMB, "an alias"),
    "a circle": ("a: &a [*a]\n", "an alias"),
    "a merge": (recipe(grpo="{<<: {push_to_hub: true}}"), "a merge"),
    "a tag": (recipe(prompt="!!python/object/apply:os.system ['touch OUTSIDE/new']"), "a tag"),
    "a tag by another name": ("%TAG ! tag:yaml.org,2002:python/\n---\na: !name:os.system x\n", "without directives"),
    "another YAML": ("%YAML 1.1\n---\n" + recipe(), "without directives"),
    "two recipes": (recipe() + "---\n" + recipe(), "one YAML document"),
    "10,000 levels": ("a: " + "[" * 10_000 + "]" * 10_000, "levels deep"),
    "300 levels of lines": ("".join(" " * i + "a:\n" for i in range(300)), "levels deep"),
    "a list as a key": (recipe() + "? [a, b]\n: 1\n", "a key that is itself a list"),
    "a number as a key": (recipe() + "1: 2\n", "is no name"),
    "5,000 digits": (recipe(seed="1" * 5000), "not valid YAML"),
    "400 digits": (recipe(seed="1" * 400), "seed: expected a whole number"),
    "400 digits of a share": (grpo("learning_rate: " + "1" * 400), "learning_rate: expected a number"),
    "2,000 misspelt keys": (grpo(*(f"a{i}: 1" for i in range(2000))), "unknown key grpo.a7"),
    "codes in a key": (grpo(r'"\e]0;x\a": 1'), "unknown key"),
    "codes in a folder": (recipe(output_dir=r'"outputs/\e]0;x\a"'), "output_dir"),
    "codes in a data set": (train(r'"\e]0;x\a"'), "unknown data set"),
    "a model's long name": (recipe(model=f"{{name_or_path: {'a' * 300}}}"), "model.name_or_path"),
    "a folder's long name": (recipe(data=f"{{train: [gsm8k], dir: {'a' * 300}}}"), "data.dir"),
    "a file's long name": (train("a" * 300 + ".jsonl"), "data set"),
    "an output's long name": (recipe(output_dir="outputs/" + "a" * 300), "output_dir"),
    "digits without end": (train("arithmetic: {digits: 5000}"), "arithmetic"),
    "a number for a folder": (train("gsm8k: {folder: 5}"), "gsm8k"),
    "the stage's own argument": (train("arithmetic: {split: test}"), "arithmetic"),
    "a base above": ("base: ../outside/canary.yaml\n", "expected a file of this folder"),
    "a base anywhere": ("base: OUTSIDE/canary.yaml\n", "expected a file of this folder"),
    "a base on the web": ("base: PORT/x.yaml\n", "expected a file of this folder"),
    "its own base": ("base: mine.yaml\n", "a circle"),
    "a base of a long name": (f"base: {'a' * 300}.yaml\n", "expected a file of this folder"),
    "codes in a base": (r'base: "\e]0;x\a.yaml"', "expected a file of this folder"),
}
# The text of its base, and what is said of it.
BASES = {
    "another host": (grpo("vllm_server_host: 10.0.0.1"), "theirs.yaml:4: grpo.vllm_server_host"),
    "wandb": (grpo("report_to: [tensorboard, wandb]"), "theirs.yaml:4: grpo.report_to"),
    "an upload": (grpo("push_to_hub: true"), "a run uploads nothing"),
    "os.system": (reward("os.system: {command: touch OUTSIDE/new}"), YOURS),
    "aliases that multiply": (BOMB, "an alias"),
    "a tag": (recipe(prompt="!!python/object/apply:os.system ['touch OUTSIDE/new']"), "a tag"),
    "no mapping": ("- 1\n", "a recipe is a mapping"),
    "a circle": ("base: mine.yaml\n", "a circle"),
    "no UTF-8": (b"a: b\nc: \xff\n", "not UTF-8"),
}
TEMPLATES = {
    "a loop": ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than 5 s"),
    "a long text": ("{{ 'a' * 10**10 }}", "takes more than a GiB"),
    "many tokens": ("{{ messages[0].content }}{{ 'a' * 10**6 }}", "writes 1,000,0"),
    "a class": ("{{ messages.__class__.__base__.__subclasses__() }}", "fails: SecurityError"),
    "globals": ("{{ cycler.__init__.__globals__.os.system('touch OUTSIDE/new') }}", "fails: SecurityError"),
    "itself": ("{{ self.__init__.__globals__.__builtins__.open('OUTSIDE/new', 'w') }}", "fails: "),
    "recursion": ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "fails: RecursionError"),
    "no template": ("{% for %}", "fails: TemplateSyntaxError"),
    "a file": ("{% include 'OUTSIDE/canary' %}", "fails: "),
    "codes": ("{{ raise_exception('\x1b]0;x\x07') }}", "fails: TemplateError"),
}
FILES = {
    "a class": (given(reward("mine.E: {}"), put("mine.py", "class E:\n    pass\n")), "is not a function"),
    "a partial": (given(reward("mine.p: {}"), put("mine.py", PARTIAL)), "is not a function"),
    "a builtin": (given(reward("mine.system: {}"), put("mine.py", "from os import system\n")), "is not a function"),
    "an import": (given(reward("mine.rmtree: {}"), put("mine.py", "from shutil import rmtree\n")), "written in shutil"),
    "below outputs": (given(reward("outputs.x.evil.paid: {}"), put("outputs/x/evil.py", EVIL)), YOURS),
    "linked from outputs": (
        given(reward("mine.evil.paid: {}"), put("outputs/x/evil.py", EVIL), link("mine", "outputs/x")),
        YOURS,
    ),
    "an installed package": (given(reward("mine.get: {}"), link("mine", Path(pytest.__file__).parent)), YOURS),
    "100 MB": (large("mine.yaml", 10**8), "100,000,000 bytes"),
    "a pipe": (pipe("mine.yaml"), "is not a file"),
    "no UTF-8": (put("mine.yaml", b"a: b\nc: \xff\n"), "not UTF-8"),
    "a base in a pipe": (given("base: theirs.yaml\n", pipe("theirs.yaml")), "is not a file", "theirs.yaml"),
    "a base of 100 MB": (
        given("base: theirs.yaml\n", large("theirs.yaml", 10**8)),
        "100,000,000 bytes",
        "theirs.yaml",
    ),
    "a base that leads away": (given("base: theirs.yaml\n", link("theirs.yaml")), "leads out of its folder"),
    "a base that leads to itself": (
        given("base: theirs.yaml\n", link("theirs.yaml", "theirs.yaml")),
        "there is no file",
    ),
    "outputs that lead away": (given(recipe(), link("outputs/mine", "../../outside")), "writes outside outputs/"),
}
DATA = {
    "a pipe": (given(OF_FILE, pipe("theirs.jsonl")), "there is no such file"),
    "a link to a pipe": (given(OF_FILE, pipe("x"), link("theirs.jsonl", "x")), "there is no such file"),
    "zeros": (given(OF_FILE, link("theirs.jsonl", "/dev/zero")), "there is no such file"),
    "a pipe by name": (given(train("data.sources.problems_of_file: {file: x}"), pipe("x")), "problems_of_file"),
    "40 GB": (given(OF_FILE, large("theirs.jsonl", 40 * 10**9)), "theirs.jsonl"),
    "no UTF-8": (data(b"\xff\n"), "theirs.jsonl is not UTF-8"),
    "nested": (data("[" * 100_000), "theirs.jsonl line 1 is not JSON"),
    "nested in a row": (data(rows(hint=0).replace('"hint": 0', f'"hint": {DEEP}')), "theirs.jsonl"),
    "no row": (data("[1]\n"), "theirs.jsonl line 1 is '[1]', not an object"),
    "half a letter": (data(rows(problem=lambda i: f"\ud800 {i}?")), "theirs.jsonl"),
    "numbers": (data(rows(problem=5)), "theirs.jsonl train: 0 problems"),
    "codes in a column": (data('{"\\u001b]0;x\\u0007": 1}\n'), "is needed"),
    "columns of the trainer's": (data(rows(completions="x", prompts="y")), "theirs.jsonl"),
    "columns of two kinds": (data(rows(hint=lambda i: [i] if i % 2 else str(i))), "theirs.jsonl"),
    "images": (data(rows(images=["PORT/x.png"])), "theirs.jsonl"),
    "long problems": (
        data(rows(8, problem=lambda i: "1 + " * 10**6 + str(i))),
        "theirs.jsonl train: 0 problems, 8 dropped",
    ),
    "metadata": (parquet([f"{i} + 1" for i in range(60)], 1, **PICKLED), Harmless()),
    "2,000,001 rows": (parquet(["1 + 1"], 2_000_001), "theirs.parquet has more than"),
    "a megabyte 6,000 times": (parquet(["1 + 1 = " * 2**17], 6000), "theirs.parquet"),
}
BENCHMARKS = {
    "a label with a path": (
        given(
            OF_BENCHMARK.replace("theirs.jsonl", "mine.rows: {path: ../../../../outside/x}"),
            put("mine.py", "def rows(split, path):\n    return [{'problem': 'What is 1 + 1?', 'solution': '2'}]\n"),
        ),
        Harmless("outside_x"),
    ),
    "a level that is no formula": (data(rows(9, level="$\\frac{$"), OF_BENCHMARK), Harmless()),
    "a level that is a list": (data(rows(9, level=[1]), OF_BENCHMARK), Harmless()),
    "a thousand levels": (data(rows(1000, level=str), OF_BENCHMARK), Harmless()),
}
MODELS = {
    "a kernel": (model(attn_implementation="a/kernel"), "asks for the kernel"),
    "a kernel a part": (model(attn_implementation={"": "a/kernel"}), Harmless()),
    "kernels for experts": (model(experts_implementation="a/kernel"), "asks for the kernel"),
    "quantised": (model(quantization_config={"quant_method": "gptq"}), "is quantised already"),
    "3,000,000 labels": (model(num_labels=3_000_000), "num_labels is 3,000,000"),
    "2,000 layers": (model(num_hidden_layers=2000), "num_hidden_layers is 2,000"),
    "64 GiB in a layer": (model(vocab_size=2**22, hidden_size=2**12), "model theirs"),
    "layers below none": (model(num_hidden_layers=-1), "theirs"),
    "no heads": (model(num_attention_heads=0), "theirs"),
    "words for numbers": (model(hidden_size="x"), "theirs"),
    "an image model": (model(model_type="detr"), "no causal language model"),
    "no known model": (model(model_type="evil"), "no causal language model"),
    "other weights": (model(transformers_weights="../outside/canary"), "names other files"),
    "a backbone": (model(tokenizer_class="AutoBackbone"), "is no tokenizer"),
    "a config as tokenizer": (tokenizer(tokenizer_class="AutoConfig"), "is no tokenizer"),
    "a backbone as tokenizer": (tokenizer(tokenizer_class="AutoBackbone"), "is no tokenizer"),
    "an adapter beside it": (model(put("adapter_config.json", {"base_model_name_or_path": "x/y"})), "holds an adapter"),
    "parts above": (model(put(INDEX, {"weight_map": {"x": "../x.safetensors"}})), "as a part"),
    "parts that are pickled": (model(put(INDEX, {"weight_map": {"x": "x.bin"}})), "as a part"),
    "parts in a list": (model(put(INDEX, {"weight_map": {"x": ["x"]}})), "theirs"),
    "pickled": (model(gone("model.safetensors"), pickled("pytorch_model.bin")), "holds no model.safetensors"),
    "weights elsewhere": (model(link("model.safetensors")), "outside its folder"),
    "a config elsewhere": (model(link("config.json")), "outside its folder"),
    "weights without sense": (
        model(put("model.safetensors", b"\xff" * 99)),
        "theirs/model.safetensors: cannot be read",
    ),
    "codes in a weight's name": (model(tensor("\x1b]0;x\x07")), "has a weight of the name"),
    "a config without sense": (model(put("config.json", b"\xff")), "theirs/config.json: cannot be read as JSON"),
    "a config in a list": (model(put("config.json", [1])), "theirs/config.json: is not a JSON object"),
    "a config nested": (model(put("config.json", f'{{"model_type": "qwen3", "x": {DEEP}}}')), "theirs"),
    "a tokenizer without sense": (model(put("tokenizer.json", b"\xff")), "model theirs"),
    "an empty tokenizer": (model(put("tokenizer.json", {})), "model theirs"),
    "a tokenizer of no kind": (model(alter("tokenizer.json", normalizer={"type": "x"})), "model theirs"),
    "a million tokens": (model(alter("tokenizer.json", normalizer=PREPEND)), "tokens of"),
    "a tokenizer in a pipe": (model(pipe("tokenizer.json")), "theirs"),
    "advice in a list": (model(put("generation_config.json", [1])), "theirs"),
    "an end of half a token": (model(put("generation_config.json", {"eos_token_id": 0.5})), "theirs"),
    "an end in words": (model(put("generation_config.json", {"eos_token_id": "ab"})), "theirs"),
    "a template": (model(put("chat_template.jinja", TEMPLATES["a class"][0])), "fails: SecurityError"),
    "its own code": (
        model(
            put("evil.py", EVIL),
            alter("config.json", auto_map={f"Auto{k}": "evil.E" for k in ("Config", "ModelForCausalLM")}),
            alter("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.E", "evil.E"]}),
        ),
        Harmless(),
    ),
    "another's name": (model(text=grpo("beta: 0.1", model="{name_or_path: theirs}"), _name_or_path="x/y"), Harmless()),
}
ADAPTERS = {
    "a pickle beside it": (adapter(pickled("adapter_model.bin")), Harmless()),
    "of another model": (adapter(base_model_name_or_path="evil/x"), "is an adapter of evil/x"),
    "of no model": (adapter(base_model_name_or_path={"a": 1}), "theirs"),
    "BOFT": (adapter(peft_type="BOFT"), "only plain LoRA"),
    "SHADOW": (adapter(peft_type="SHADOW"), "only plain LoRA"),
    "a prompt": (adapter(peft_type="PROMPT_TUNING"), "only plain LoRA"),
    "pickled": (adapter(gone("adapter_model.safetensors"), pickled("adapter_model.bin")), "holds no adapter_model"),
    "a slow expression": (adapter(target_modules="(a+)+$"), "target_modules"),
    "modules that are not": (adapter(target_modules=["nothing"]), "theirs"),
    "a large rank": (adapter(r=200_000), "r: expected a whole number"),
    "another rank": (adapter(r=8), "theirs"),
    "megatron": (adapter(megatron_core="this"), "megatron_core is set"),
    "auto_mapping": (adapter(auto_mapping={"parent_library": "this"}), "auto_mapping is set"),
    "layers without end": (adapter(layer_replication=[[0, 100_000]]), "layer_replication is set"),
    "weights without sense": (adapter(put("adapter_model.safetensors", b"\xff" * 99)), "theirs"),
    "weights elsewhere": (adapter(link("adapter_model.safetensors")), "outside its folder"),
}
RUNS = {
    "a linked lock": (run(link(".lock"), begun=False), "is a link"),
    "linked metrics": (run(link("metrics.jsonl")), "is a link"),
    "a linked file to be written": (run(link("data.json.partial"), begun=False), "is a link"),
    "a linked checkpoint": (run(at("checkpoint-1", link("optimizer.pt"))), "is a link"),
    "a linked folder": (run(away), "is a link"),
    "a piped lock": (run(pipe(".lock")), ".lock"),
    "piped metrics": (run(pipe("metrics.jsonl")), "metrics.jsonl"),
    "a piped file to be written": (run(pipe("data.json.partial"), begun=False), "data.json"),
    "a piped manifest": (run(at("checkpoint-1", pipe("manifest.json"))), "is neither a file nor a folder"),
    "a recipe with a tag": (run(put("recipe.yaml", "a: !!python/name:os.system x\n")), "is not what a run wrote"),
    "a recipe of a million lines": (run(put("recipe.yaml", "a: 1\n" * 10**6)), "is not what a run wrote"),
    "a recipe in a list": (run(put("recipe.yaml", "- 1\n")), "holds a run of another recipe"),
    "data in a list": (run(put("data.json", [])), "data.json"),
    "data without sense": (run(put("data.json", "{")), "data.json"),
    "data in words": (run(put("data.json", {"problems": "x", "sha256": 1})), "data.json"),
    "files above": (
        manifest({"files": {"../../../../../outside/canary": [5, "x"]}}),
        Harmless("names files outside it"),
    ),
    "a manifest in a list": (manifest([]), Harmless("cannot be read")),
    "a best one elsewhere": (
        checkpoint(alter(STATE, best_model_checkpoint="OUTSIDE")),
        "in another folder, as the best checkpoint",
    ),
    "a state of words": (checkpoint(alter(STATE, global_step="x")), "checkpoint-1"),
    "a pickled optimizer": (checkpoint(pickled("optimizer.pt")), "checkpoint-1"),
    "a pickled schedule": (checkpoint(pickled("scheduler.pt")), "checkpoint-1"),
    "pickled dice": (checkpoint(pickled("rng_state.pth")), "checkpoint-1"),
    "pickled weights": (checkpoint(gone("model.safetensors"), pickled("pytorch_model.bin")), "checkpoint-1"),
    "pickled arguments": (checkpoint(pickled("training_args.bin")), Harmless("checkpoint-1")),
    "weights without sense": (checkpoint(put("model.safetensors", b"\xff" * 99)), "checkpoint-1"),
}
EVALUATIONS = {
    "a linked report": (link("report.md"), "is a link"),
    "linked answers": (link("base.jsonl"), "is a link"),
    "linked answers to be written": (link("base.partial"), "is a link"),
    "linked seconds": (link("base.seconds.jsonl"), "is a link"),
    "a linked summary": (link("summary.json"), "is a link"),
    "a linked picture": (link("accuracy.png"), "is a link"),
    "a linked folder": (away, "is a link"),
    "piped answers to be written": (pipe("base.partial"), "base.partial"),
    "piped seconds": (pipe("base.seconds.jsonl"), "base.seconds"),
    "answers without sense": (put("base.jsonl", "{\n{\n"), "base.jsonl"),
    "answers in lists": (put("base.jsonl", "[]\n[]\n"), "base.jsonl"),
}
REPORTS = {
    "a linked report": (link("report.md"), "is a link"),
    "in lists": (put("base.jsonl", "[]\n[]\n"), "base.jsonl"),
    "of nothing": (put("base.jsonl", "{}\n{}\n"), "base.jsonl"),
    "of lists": (put("base.jsonl", '{}\n{"id": [1]}\n'), "base.jsonl"),
}

HELD_OUT, JUDGED, REPORTED = "../eval/held-out", ("mine.yaml", "--held-out"), ("outputs/mine/eval/held-out",)
OF_ADAPTER = (*JUDGED, "--model", "theirs")
ATTACKS = {
    **{f"recipe: {name}": Attack(given(text), says) for name, (text, says) in RECIPES.items()},
    **{
        f"base: {name}": Attack(given("base: theirs.yaml\n", put("theirs.yaml", text)), says, "theirs.yaml")
        for name, (text, says) in BASES.items()
    },
    **{f"template: {name}": Attack(given(templated(text)), says) for name, (text, says) in TEMPLATES.items()},
    **{f"file: {name}": Attack(*each) for name, each in FILES.items()},
    **{f"data: {name}": Attack(*each, place="") for name, each in DATA.items()},
    **{f"benchmark: {name}": Attack(*each, "", "evaluate") for name, each in BENCHMARKS.items()},
    **{f"model: {name}": Attack(*each, "theirs") for name, each in MODELS.items()},
    **{f"adapter: {name}": Attack(*each, "theirs", "evaluate", OF_ADAPTER) for name, each in ADAPTERS.items()},
    **{f"run: {name}": Attack(*each, "outputs/mine/sft", "sft") for name, each in RUNS.items()},
    **{
        f"evaluation: {name}": Attack(run(at(HELD_OUT, killed, change)), says, "outputs/mine/eval", "evaluate", JUDGED)
        for name, (change, says) in EVALUATIONS.items()
    },
    **{
        f"report: {name}": Attack(run(at(HELD_OUT, change)), says, "outputs/mine/eval", "report", REPORTED)
        for name, (change, says) in REPORTS.items()
    },
    # Where another stage reads the same, or goes on to write.
    "check: everything at once": Attack(given(EVERYTHING), "not ready: 3 to change", "", "check"),
    "check: a base's folder": Attack(
        given("base: theirs.yaml\n", put("theirs.yaml", recipe(output_dir="OUTSIDE/x"))), Harmless("ready"), "", "check"
    ),
    "check: a model's kernel": Attack(model(attn_implementation="a/kernel"), "asks for the kernel", "theirs", "check"),
    "check: a model's words": Attack(model(hidden_size="x"), "hidden_size", "theirs", "check"),
    "check: codes in problems": Attack(data(rows(problem=lambda i: f"\x1b]0;{i}\x07")), Harmless("ready"), "", "check"),
    "check: columns of the trainer's": Attack(data(rows(completions="x")), "theirs.jsonl", "", "check"),
    "audit: a pipe": Attack(given(OF_FILE, pipe("theirs.jsonl")), "there is no such file", "mine.yaml", "audit"),
    "sft: an embedding's adapter": Attack(model(text=EMBEDDED, _name_or_path="x/y"), Harmless("done"), "", "sft"),
    "grpo: a warm start's kernel": Attack(run(put("summary.json", {}), KERNEL), "asks for the kernel", "mine/sft"),
    "evaluate: linked results": Attack(run(at("../eval", away)), "is a link", "outputs/mine/eval", "evaluate", JUDGED),
    "evaluate: linked results of a model": Attack(
        run(at("../eval", away)), "is a link", "outputs/mine/eval", "evaluate", (*JUDGED, "--model", TINY_MODEL)
    ),
    "merge: a linked folder": Attack(run(finished, PARTIAL_MERGE), "is a link", "outputs/mine", "merge"),
    "merge: a linked file": Attack(run(finished, PARTIAL_FILE), "is a link", "outputs/mine", "merge"),
}
# Attacks that succeed, or are not told as a mistake: to be mended.
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
    given(reward("mine.paid: {}"), put("mine.py", PAID.replace("\n", "\n" + reach, 1)))(room)
    assert arena.run("audit", "mine.yaml")[2:] == (False, True)
    after = tree(room)
    assert {Path(name).name for name in after if before.get(name) != after[name]} >= {"canary"}


if __name__ == "__main__":
    serve()
