"""What the machines of one launch tell one another. tests/stages/test_two_machines.py has whole launches."""

import errno
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from schema.faults import RecipeError
from schema.recipe import load_recipe
from training import machines
from training.run_folder import find_run

# A test's launcher leaves by an error in the place of its end.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

RECIPE = "recipes/tiny-arithmetic.yaml"
GONE = "machine 0 (127.0.0.1) does not answer any more; the same commands resume"


@pytest.fixture
def store(monkeypatch):
    """That of a launch on two machines, of which this process is the first one's."""
    from torch.distributed import PrefixStore, TCPStore

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for key, value in (given | {"GROUP_RANK": "0", "GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(machines, "SECONDS", 20)
    return PrefixStore("grpo-recipes", server)


def second(store, folder, sees: bool = True, attempt: int = 0, **other):
    """What the second machine says."""
    from torch.distributed import PrefixStore

    store = PrefixStore(f"attempt-{attempt}", store)
    facts = json.loads(json.dumps(machines._facts(folder), default=str)) | {"name": "second"} | other
    store.set("run/1", json.dumps(facts))
    store.set("seen/1", json.dumps({"seen": sees}))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"grpo.learning_rate": 2e-3},
            r"machine 1 \(second\) .*:\n  grpo.learning_rate: 0.002 and 5e-05\n",
        ),
        ({"grpo.beta": 0.1}, r"\n  grpo.beta: 0.1 and None\n"),
        ({"stage": "sft"}, r"\n  stage: sft and grpo\n"),
        ({"hash of the code": "0"}, r"\n  hash of the code: 0 and \w{12}\n"),
        ({"trl": "1.15.0"}, r"\n  trl: 1.15.0 and "),
        ({"newest checkpoint": "x/checkpoint-4"}, r"\n  newest checkpoint: x/checkpoint-4 and None\n"),
        ({"finished": True}, r"\n  finished: True and False\n"),
    ],
)
def test_machines_with_different_runs_are_refused(other, said, store, tmp_path):
    folder = find_run(load_recipe(RECIPE, [f"output_dir={tmp_path}"], check=()), "grpo")
    second(store, folder, **other)
    with pytest.raises(RecipeError, match=said):
        machines.require_same(folder)


def test_machines_that_share_no_folder_are_refused(store, tmp_path):
    folder = find_run(load_recipe(RECIPE, [f"output_dir={tmp_path}/there"], check=()), "grpo")
    second(store, folder, sees=False)
    with pytest.raises(RecipeError, match=r"machine 1 \(second\) does not see .*: all machines must have"):
        machines.require_same(folder)
    second(store, folder)
    machines.require_same(folder)
    assert not list((tmp_path / "there").iterdir())


def test_processes_that_were_started_again_ask_again(store, tmp_path, monkeypatch):
    """As by `--max_restarts`: the store still has what the first ones said."""
    folder = find_run(load_recipe(RECIPE, [f"output_dir={tmp_path}"], check=()), "grpo")
    second(store, folder, trl="1.15.0")
    second(store, folder, attempt=1)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    machines.require_same(folder)


def test_the_second_machine_looks_for_what_the_first_wrote(store, tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "LATE", 1)
    mark = tmp_path / ".machines"
    machines._leave_mark(mark, store)
    assert machines._sees(mark, store)
    with monkeypatch.context() as patched:
        stale = [OSError(errno.ESTALE, "as NFS says of a file that another machine replaced")]
        read = Path.read_text
        patched.setattr(Path, "read_text", lambda path, **how: _raise(stale.pop()) if stale else read(path, **how))
        assert machines._sees(mark, store) and not stale
    mark.write_text("of an earlier launch")
    assert not machines._sees(mark, store)
    mark.unlink()
    assert not machines._sees(mark, store)


def _raise(error: Exception):
    raise error


def test_one_machine_is_asked_nothing(monkeypatch):
    monkeypatch.delenv("GROUP_WORLD_SIZE", raising=False)
    machines.require_same(None)


@pytest.fixture
def pair(monkeypatch):
    """Starts the watches of two machines, given what each was started with; and what each said when it left."""
    from torch.distributed import TCPStore

    left, servers = [], [TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, multi_tenant=True)]

    def leave(self, why: str, code: int):
        left.append((self.machine, why, code))
        self.over.set()
        raise RuntimeError("as no code after it runs")

    for name, seconds in {"EVERY": 0.1, "SILENT": 1.5, "GRACE": 0.3}.items():
        monkeypatch.setattr(machines, name, seconds)
    monkeypatch.setattr(machines.Watch, "_leave", leave)
    started = []

    def start(*options: str, ranks: tuple[int, ...] = (0, 1), of: int = 2) -> list[machines.Watch]:
        for rank, each in zip(ranks, options, strict=True):
            started.append(machines.Watch(("127.0.0.1", servers[0].port), rank, of, each, 20))
            started[-1].start()
        return started

    yield start, left, servers
    for each in started:
        each.over.set()
        each.join(30)


def test_a_launch_begins_when_it_is_in_the_store(pair):
    start, _, _ = pair
    first, second = start("same", "same")
    first.wait()
    second.wait()
    assert second.store is not None
    alone = machines.Watch(("127.0.0.1", 1), 1, 2, "same", 0.2)
    with pytest.raises(RuntimeError, match=r"machine 0 \(127.0.0.1\) did not answer in 0.2 s"):
        alone.wait()


def met(watches: list[machines.Watch]):
    until = time.monotonic() + 20
    while any(each.store is None for each in watches):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_machine_ends_with_the_other_as_that_one_did(rank, pair):
    start, left, _ = pair
    watches = start("same", "same")
    met(watches)
    watches[rank].ended(4, "out of memory")
    watches[1 - rank].join(20)
    ((machine, why, code),) = left
    assert (machine, code) == (1 - rank, 4) and why.startswith(f"machine {rank} (") and why.endswith("out of memory")


def test_a_machine_ends_with_another_before_the_third_has_come(pair):
    start, left, _ = pair
    watches = start("same", "same", of=3)
    met(watches)
    watches[1].ended(2, "no such recipe")
    watches[0].join(10)
    assert [(machine, code) for machine, _, code in left] == [(0, 2)]


def test_how_a_machine_ended_is_not_overwritten_by_its_last_sign_of_life(pair):
    start, left, _ = pair
    watches = start("same", "same")
    met(watches)
    store, said = watches[1].store, threading.Event()

    class Slow:
        """A store in which the news of the end overtakes a sign of life, if they are told at once."""

        def set(self, key, value):
            if "code" not in value:
                said.wait(0.5)
            store.set(key, value)
            if "code" in value:
                said.set()

        def __getattr__(self, name):
            return getattr(store, name)

    watches[1].store = Slow()
    time.sleep(0.3)
    watches[1].ended(4, "out of memory")
    watches[0].join(20)
    assert [(machine, code) for machine, _, code in left] == [(0, 4)]


def test_a_machine_that_has_finished_ends_none(pair):
    start, left, _ = pair
    watches = start("same", "same")
    met(watches)
    watches[1].ended(0)
    time.sleep(2 * machines.SILENT)
    assert left == [] and watches[0].is_alive()


def test_a_machine_whose_own_processes_soon_end_says_nothing_of_the_other(pair, monkeypatch):
    monkeypatch.setattr(machines, "GRACE", 3)
    start, left, _ = pair
    watches = start("same", "same")
    met(watches)
    watches[1].ended(2, "no such recipe")
    time.sleep(1)
    watches[0].ended(2, "no such recipe")
    time.sleep(3)
    assert left == []


def test_a_machine_that_falls_silent_ends_the_other(pair):
    start, left, _ = pair
    watches = start("same", "same")
    met(watches)
    watches[1].over.set()  # without a word
    watches[0].join(20)
    ((machine, why, code),) = left
    assert (machine, code) == (0, 3) and "machine 1" in why and "has not been heard of for 1.5 s" in why


def test_the_store_outlives_the_launcher_of_torch(pair):
    start, left, servers = pair
    watches = start("same", "same")
    met(watches)
    servers.clear()
    time.sleep(1)
    assert left == [] and watches[1].is_alive()


def test_the_first_machine_ends_when_the_others_have_heard_why(pair):
    start, left, servers = pair
    watches = start("same", "same")
    met(watches)
    servers.clear()
    watches[0].ended(4, "out of memory")
    watches[0].kept = watches[0].store = None
    watches[1].join(20)
    ((machine, why, code),) = left
    assert (machine, code) == (1, 4) and why.startswith("machine 0 (") and why.endswith("out of memory")


def test_the_first_machine_takes_the_store_with_it(pair):
    start, left, servers = pair
    watches = start("same", "same")
    met(watches)
    watches[0].over.set()
    watches[0].join(20)
    watches[0].kept = watches[0].store = None
    servers.clear()
    watches[1].join(20)
    ((machine, why, code),) = left
    assert (machine, code, why) == (1, 3, GONE)


def test_a_store_that_never_answers_is_gone(pair):
    """As where the cable is cut: no error comes of it."""
    start, left, _ = pair
    watches = start("same", "same")
    met(watches)
    cut = threading.Event()
    watches[1].store = SimpleNamespace(set=lambda key, value: None, check=lambda keys: cut.wait(10))
    until = time.monotonic() + 10
    while len(left) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    cut.set()
    said = {machine: (why, code) for machine, why, code in left}
    assert said[1] == (GONE, 3)
    assert said[0][0].endswith("has not been heard of for 1.5 s; the same commands resume")


def test_machines_that_were_started_in_different_ways_are_refused(pair):
    start, left, _ = pair
    for each in start("--num_processes 2", "--num_processes 4"):
        each.join(20)
    (second, first) = left
    assert second[0] == 1 and second[1].startswith("started with --num_processes 4, but machine 0 (")
    assert first[0] == 0 and first[1].endswith(second[1]) and (first[2], second[2]) == (2, 2)


def test_two_machines_of_one_rank_are_refused(pair):
    start, left, _ = pair
    start("same", "same", ranks=(1, 1))
    until = time.monotonic() + 20
    while not left and time.monotonic() < until:
        time.sleep(0.05)
    ((machine, why, code),) = left
    assert (machine, code) == (1, 2) and why.startswith("there is a machine 1 already: two were started with ")


def test_a_machine_that_is_waited_for_is_said(pair, monkeypatch, capsys):
    monkeypatch.setattr(machines, "PATIENCE", 0.2)
    start, _, servers = pair
    start("same", ranks=(0,))
    time.sleep(1)
    said = f"launch: waiting for the other machines at 127.0.0.1:{servers[0].port}, at most 20 s"
    assert capsys.readouterr().err.strip() == said


def test_machines_that_have_come_are_not_waited_for(pair, monkeypatch, capsys):
    monkeypatch.setattr(machines, "PATIENCE", 1)
    start, _, _ = pair
    met(start("same", "same"))
    time.sleep(1.5)
    assert capsys.readouterr().err == ""
