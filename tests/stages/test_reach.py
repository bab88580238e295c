"""What a stranger's recipe, data, model, adapter or run folder cannot do: reach the network, write
outside `outputs/`, run code of its own, take all the time or memory there is, write codes to the
terminal, or end in a stack trace.

Each attack lies in a clone of this repository and is run as `python -m stages.x mine.yaml` in a
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
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import stage_process
from tests.support import ROOMS, ROOT
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
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(ROOM.parent / "home"),
            "CUDA_VISIBLE_DEVICES": "",  # a GPU wants more addresses than MEMORY leaves
            "HF_HOME": str(HOME / "huggingface"),
            "MPLCONFIGDIR": str(HOME / "matplotlib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRUST_FILES": "trusted.py",
            "REAL_HOME": os.environ["REAL_HOME"],
            "REAL_CHECKOUT": os.environ["REAL_CHECKOUT"],
        } | {f"{kind}_proxy": everywhere for kind in ("http", "https", "all")}
        command, pipe = (
            [sys.executable, "-m", "tests.stages.test_reach", str(HOME)],
            subprocess.PIPE,
        )
        self.parent = start_command(
            command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, env=environment
        )

    def _refuse(self, listening: socket.socket):
        while True:
            with listening.accept()[0] as connection:
                self.connections.append(connection)

    def run(self, stage: str, *arguments: str) -> Ended:
        before = len(self.connections)
        print(json.dumps([f"stages.{stage}", arguments]), file=self.parent.stdin, flush=True)
        code = json.loads(self.parent.stdout.readline())
        text = "".join(
            (HOME / each).read_text(errors="backslashreplace") for each in ("out", "err")
        )
        return Ended(code, text, len(self.connections) > before)


def serve(home: Path):
    """Fork a process for each job of the input, and answer with its exit code."""
    sys.path[0] = str(home / "room/clone")  # in place of the repository itself
    for each in ["stages", *stage_process.LIBRARIES]:
        importlib.import_module(each)
    configs = importlib.import_module("schema.configs")  # which reads the libraries' sources, once
    list(map(configs.fields, configs.CLASSES))
    for line in sys.stdin:
        process = multiprocessing.get_context("fork").Process(
            target=_attack, args=(home, *json.loads(line))
        )
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
    put("../outside/canary", "sings")(ROOM)
    put("mine.yaml", WARM)(ROOM)
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
    left_out = {ROOM / "outputs", ROOM.parent / "home/.cache"}
    every = [each for each in ROOM.parent.rglob("*") if not left_out & {each, *each.parents}]
    return {
        str(each): (s.st_mode, s.st_size, s.st_mtime_ns) for each in every for s in [each.lstat()]
    }


# What attacks are made of: recipes, and changes to the clone --------------------------------------

TINY = {
    "model": "{build: tiny-qwen3}",
    "data": "{train: [arithmetic: {rows: 60}], validation: 4}",
    "rewards": "{correct_answer: {weight: 1.0}}",
    "grpo": (
        "{max_steps: 1, per_device_train_batch_size: 4, gradient_accumulation_steps: 1,"
        " num_generations: 2, max_completion_length: 4}"
    ),
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


def put(name: str, content: object):
    """A file with a text, bytes, or an object as JSON."""

    def write(room: Path):
        (room / name).parent.mkdir(parents=True, exist_ok=True)
        (room / name).unlink(missing_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        (room / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


def alter(name: str, **keys):
    return lambda room: put(name, json.loads((room / name).read_text()) | keys)(room)


def gone(name: str):
    return lambda room: (room / name).unlink()


def made(name: str, make: Callable[[Path], object]):
    """Something else in a file's place."""
    return lambda room: [put(name, "")(room), gone(name)(room), make(room / name)]


def link(name: str, to: object = OUTSIDE / "canary"):
    return made(name, lambda file: file.symlink_to(to))


def zeros(name: str, size: int):
    """More of a file, which take no room on the disk."""
    return lambda room: [
        file := room / name,
        file.touch(),
        os.truncate(file, file.stat().st_size + size),
    ]


def copied(folder: str, name: str):
    return lambda room: shutil.copytree(room / folder, room / name)


def rows(**columns) -> str:
    row = {"problem": "What is 1 + {}?", "answer": "{}"} | columns
    return "".join(json.dumps(row).replace("{}", str(i)) + "\n" for i in range(60))


def parquet(texts: list[str], times: int, **told: bytes):
    """These problems so many times, in next to no room; `told`: metadata of its columns and of
    itself."""

    def write(room: Path):
        import pyarrow as pa
        import pyarrow.parquet

        order = pa.array(list(range(len(texts))) * times, pa.int32())
        columns = [pa.DictionaryArray.from_arrays(order, texts)] * 2
        fields = [pa.field(name, columns[0].type, metadata=told) for name in ("problem", "answer")]
        pa.parquet.write_table(
            pa.table(columns, schema=pa.schema(fields, metadata=told)), room / "theirs.parquet"
        )
        put(MINE, train("theirs.parquet"))(room)

    return write


def safetensors(name: str, *shape: int) -> bytes:
    """A file of one weight, without its numbers."""
    told = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * math.prod(shape)]}
    header = json.dumps({name: told}).encode()
    return len(header).to_bytes(8, "little") + header


def signed(room: Path):
    """A manifest that says of a changed checkpoint what it holds."""
    from training.checkpoints import files_of, sha256

    folder = room / CHECKPOINT
    files = {
        str(each.relative_to(folder)): [each.stat().st_size, sha256(each)]
        for each in files_of(folder)
    }
    put(f"{CHECKPOINT}/manifest.json", {"step": 1, "files": files})(room)


# Attacks: what is said of each, in a line that names the place, and its changes -------------------


class Harmless(str):
    """Said of an attack that comes to nothing: the stage ends as if it were not there."""


WARM = recipe(
    sft=(
        "{max_steps: 2, per_device_train_batch_size: 2, gradient_accumulation_steps: 1,"
        " save_steps: 1}"
    )
)
WARM += "adapter: {r: 4, target_modules: all-linear}\n"
MINE, JUDGED, RUN = "mine.yaml", ("mine.yaml", "--held-out"), "outputs/mine/sft"
CHECKPOINT, HELD_OUT = f"{RUN}/checkpoint-1", "outputs/mine/eval/held-out"
THEIR_DATA, THEIR_RUN = (
    [put(MINE, train("theirs.jsonl"))],
    [copied("../honest", "outputs/mine"), put(MINE, WARM)],
)
THEIR_MODEL = [
    copied("outputs/models/tiny-qwen3-seed42", "theirs"),
    put(MINE, recipe(model="{name_or_path: theirs}")),
]
THEIR_ADAPTER = [copied("../honest/sft", "theirs"), put(MINE, WARM)]
FINISHED = [put(f"{RUN}/summary.json", {"steps": 1}), copied(RUN, "outputs/mine/grpo")]
# What each kind begins with; the place that a refusal names; the stage, and what it is given.
KINDS = {
    "recipe": ([], MINE, "grpo", MINE),
    "data": (THEIR_DATA, "", "grpo", MINE),
    "check": (THEIR_DATA, "", "check", MINE),
    "model": (THEIR_MODEL, "", "grpo", MINE),
    "adapter": (THEIR_ADAPTER, "theirs", "evaluate", *JUDGED, "--model", "theirs"),
    "run": (THEIR_RUN, RUN, "sft", MINE),
    "evaluate": (THEIR_RUN, HELD_OUT, "evaluate", *JUDGED),
    "report": (THEIR_RUN, HELD_OUT, "report", HELD_OUT),
    "merge": ([*THEIR_RUN, *FINISHED], "outputs/mine", "merge", MINE),
}

TRUST = "a recipe may run only"
PAID = "def paid(completions, **columns):\n    return [0.0] * len(completions)\n"
EVIL = f"open('{OUTSIDE}/new', 'w')\n" + PAID
PICKLE = f"cos\nsystem\n(S'touch {OUTSIDE}/new'\ntR."
BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefgh")
)
PICKLED = {
    "ARROW:extension:name": b"arrow.py_extension_type",
    "ARROW:extension:metadata": b"cos\nsystem\n",
}
WEIGHTS, LORA, PARAMETERS = (
    "theirs/model.safetensors",
    "theirs/adapter_model.safetensors",
    "theirs/adapter_config.json",
)
TITLE, ELSEWHERE = "\x1b]0;x\x07", "http://example.org/x"
FOREIGN = {
    "auto_map": {f"Auto{k}": "evil.E" for k in ("Config", "ModelForCausalLM")},
    "_name_or_path": "x/y",
}
FOREIGN |= dict.fromkeys(("attn_implementation", "experts_implementation"), "a/kernel")
FOREIGN |= {"return_dict": False, "is_encoder_decoder": True, "output_attentions": True}

# The text of a recipe, and what lies beside it.
RECIPES = {
    "code: os.system": (TRUST, reward(f"os.system: {{command: touch {OUTSIDE}/new}}")),
    "code: what we import": (TRUST, reward("data.imports.find_spec: {name: os}")),
    "code: data by torch": (TRUST, train("torch.hub.load: {repo_or_dir: x/y}")),
    "code: of a model": ("never run", grpo("trust_remote_code: true")),
    "code: a kernel": (
        "'a/kernel' is not one of",
        recipe(model="{build: tiny-qwen3, attn_implementation: a/kernel}"),
    ),
    "code: a tag": (
        "a tag",
        recipe(prompt=f"!!python/object/apply:os.system ['touch {OUTSIDE}/new']"),
    ),
    "network: an upload": ("a run uploads nothing", grpo("push_to_hub: true")),
    "network: wandb in a list": (
        "sends the run to another machine",
        grpo("report_to: [tensorboard, wandb]"),
    ),
    "network: another host": (
        "sends the run to another machine",
        grpo("vllm_server_host: 10.0.0.1"),
    ),
    "network: a file": ("there is no such file", train(f"'{ELSEWHERE}.jsonl'")),
    "files: a folder above": (
        "writes outside outputs/",
        recipe(output_dir="outputs/x/../../../outside/x"),
    ),
    "files: a template": (
        "set `model.chat_template`",
        recipe(sft=f"{{chat_template_path: {OUTSIDE}/canary}}"),
    ),
    "files: a base above": ("expected a file of this folder", "base: ../outside/canary.yaml\n"),
    "limits: aliases that multiply": ("an alias", BOMB),
    "limits: 10,000 levels": ("levels deep", "a: " + "[" * 10_000 + "]" * 10_000),
    "limits: its own base": ("a circle", "base: mine.yaml\n"),
    "limits: a long text": ("takes more than", templated("{{ 'a' * 10**10 }}")),
    "limits: a long path": ("a dotted path is", reward(f"? {'a.' * 3000}f\n: {{}}")),
    "words: a code in a key": ("unknown key", grpo(r'"\e]0;x\a": 1')),
    "words: a template's": (
        "fails: TemplateError",
        templated("{{ raise_exception('\x1b]0;x\x07') }}"),
    ),
    "words: half a character": ("half of a character", recipe(output_dir=r'"outputs/\ud800"')),
    "code: a package's": (
        TRUST,
        reward("x.y.paid: {}"),
        put("x/y.py", EVIL),
        put("x/__init__.py", EVIL),
    ),
    "code: behind a link": (
        TRUST,
        reward("x.y.paid: {}"),
        put("outputs/y.py", EVIL),
        link("x", "outputs"),
    ),
    "files: a linked output": ("writes outside outputs/", recipe(), link("outputs/mine", OUTSIDE)),
    "limits: 100 MB": ("and a recipe is a page", "", zeros(MINE, 10**8)),
    "limits: a pipe": ("is not a file", "", made(MINE, os.mkfifo)),
}
ATTACKS = {
    f"recipe: {key}": (says, put(MINE, text), *more) for key, (says, text, *more) in RECIPES.items()
} | {
    "data: zeros": ("a file of problems ends in", link("theirs.jsonl", "/dev/zero")),
    "data: 40 GB": ("theirs.jsonl", zeros("theirs.jsonl", 40 * 10**9)),
    "data: 900 levels": (
        "nested too deeply",
        put("theirs.jsonl", rows(x="y").replace('"y"', "[" * 900 + "]" * 900)),
    ),
    "data: codes in a column": (
        "say which holds the problem",
        put("theirs.jsonl", json.dumps({TITLE: 1})),
    ),
    "data: images": (
        Harmless("without images"),
        put("theirs.jsonl", rows(images=[f"{ELSEWHERE}.png"])),
    ),
    "data: pickled types": (Harmless(), parquet(list(map(str, range(60))), 1, **PICKLED)),
    "data: a megabyte 6,000 times": (
        "theirs.parquet takes more than",
        parquet(["1" * 2**20], 6000),
    ),
    "check: codes in problems": (
        Harmless("ready"),
        put("theirs.jsonl", rows(problem=TITLE + "{}", self=1)),
    ),
    "model: a key as its template": ("outside its", link("theirs/chat_template.jinja")),
    "model: what comes to nothing": (
        Harmless(),
        *(link("theirs/additional_chat_templates/x.jinja"), made("theirs/README.md", os.mkfifo)),
        *(put("theirs/evil.py", EVIL), alter("theirs/config.json", **FOREIGN)),
        alter(
            "theirs/tokenizer_config.json",
            auto_map=FOREIGN,
            **dict.fromkeys(("vocab", "merges"), f"{OUTSIDE}/canary"),
        ),
    ),
    "model: pickled": (
        "holds no model.safetensors",
        gone(WEIGHTS),
        put("theirs/pytorch_model.bin", PICKLE),
    ),
    "model: 64 GiB in a layer": (
        "config.json: asks for",
        alter("theirs/config.json", vocab_size=2**22, hidden_size=2**12),
    ),
    "model: 16 GiB of zeros": (
        "opening it takes more than the memory",
        *(
            alter("theirs/config.json", vocab_size=2**26),
            put(WEIGHTS, safetensors("model.embed_tokens.weight", 2**26, 64)),
        ),
        zeros(WEIGHTS, 2**34),
    ),
    "model: a template that fails at some questions": (
        "the chat template says: division by zero",
        put(
            "theirs/chat_template.jinja",
            "{{ messages[0].content }}{% if 12 < messages[0].content|length < 100 %}{{ 1 / 0 }}{%"
            " endif %}",
        ),
    ),
    "model: an end that it lacks": (
        "no completion could end",
        put("theirs/special_tokens_map.json", json.dumps({"eos_token": "<new>"})),
    ),
    "model: a code in its rope": (
        "theirs/config.json",
        alter("theirs/config.json", rope_parameters={"rope_type": TITLE}),
    ),
    "model: a code in a weight": ("has a weight named", put(WEIGHTS, safetensors(TITLE, 0))),
    "adapter: pickled": (
        "holds no adapter_mod",
        gone(LORA),
        put("theirs/adapter_model.bin", PICKLE),
    ),
    "adapter: BOFT": ("only plain LoRA", alter(PARAMETERS, peft_type="BOFT")),
    "adapter: a large rank": ("size mismatch", alter(PARAMETERS, r=4096)),
    "adapter: without weights": ("lacks base_model", put(LORA, safetensors("x", 0))),
    "adapter: weights elsewhere": ("outside its folder", link(LORA)),
    "run: a linked checkpoint": ("is a link", link(f"{CHECKPOINT}/optimizer.pt")),
    "run: a file above": (
        Harmless("is missing"),
        put(f"{CHECKPOINT}/manifest.json", {"files": {"../../../../../outside/canary": [5, "x"]}}),
    ),
    "run: a best checkpoint elsewhere": (
        *(
            "as the best checkpoint",
            alter(f"{CHECKPOINT}/trainer_state.json", best_model_checkpoint=str(OUTSIDE)),
        ),
        signed,
    ),
    "run: piped metrics": ("metrics.jsonl", made(f"{RUN}/metrics.jsonl", os.mkfifo)),
    "run: an adapter beside its own": (
        *(Harmless("done"), put(f"{CHECKPOINT}/x/adapter_model.safetensors", "x")),
        *(put(f"{CHECKPOINT}/x/adapter_config.json", {"peft_type": "LORA", "r": 10**7}), signed),
    ),
    "run: half a checkpoint": (
        *(
            "lacks base_model",
            put(f"{CHECKPOINT}/adapter_model.safetensors", safetensors("x", 0)),
            signed,
        ),
    ),
    "run: a recipe with a tag": (
        "cannot be read",
        put(f"{RUN}/recipe.yaml", "a: !!python/name:os.system x\n"),
    ),
    "run: a pickled optimizer": ("checkpoint-1", put(f"{CHECKPOINT}/optimizer.pt", PICKLE), signed),
    "run: data without sense": (Harmless("data.json was lost"), put(f"{RUN}/data.json", "{")),
    # Where another stage reads the same, or goes on to write.
    "evaluate: linked answers": (
        "is a link",
        gone(f"{HELD_OUT}/base.jsonl"),
        link(f"{HELD_OUT}/base.partial"),
    ),
    "report: in lists": ("base.jsonl", put(f"{HELD_OUT}/base.jsonl", "[]\n[]\n")),
    "merge: a linked folder": ("is a link", link("outputs/mine/merged.partial", OUTSIDE)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_or_harmless(name, room, arena):
    (begin, place, *command), (says, *changes) = KINDS[name.partition(":")[0]], ATTACKS[name]
    for change in (*begin, *changes):
        change(room)
    before = tree()
    ended = arena.run(*command)
    print(ended.text)
    assert not ended.reached, "connected to another place"
    assert tree() == before, "wrote elsewhere"
    assert ended.code is not None, f"took more than {SECONDS} s"
    assert not NO_MEMORY.search(ended.text), "took all memory"
    assert "Traceback" not in ended.text
    assert not CODES.search(ended.text)
    lines = [line for line in ended.text.splitlines() if says in line]
    if isinstance(says, Harmless):
        assert ended.code == 0
        assert lines
    else:
        assert ended.code in (2, 3, 4)  # 3: a run that had begun; 4: out of memory
        assert any(place in line or "error.txt" in line for line in lines)


def test_what_reaches_out_is_seen(room, arena):
    reach = (
        f"    import httpx\n    open('{OUTSIDE}/canary', 'w')\n   "
        " httpx.get('https://example.org')\n"
    )
    put("trusted.py", PAID.replace("\n", "\n" + reach, 1))(room)
    put(MINE, reward("trusted.paid: {}"))(room)
    before = tree()
    assert arena.run("audit", MINE).reached
    after = tree()
    assert {Path(name).name for name in after if before.get(name) != after[name]} >= {"canary"}
    put(MINE, recipe(model="{name_or_path: a/model}"))(room)
    assert arena.run("grpo", MINE).reached  # the Hub


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
