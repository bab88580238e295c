"""What the machines of one launch tell one another. tests/stages/test_two_machines.py has whole
launches."""

import errno
import json
from pathlib import Path

import pytest

from schema.faults import RecipeError
from schema.recipe import load_recipe
from training import machines
from training.run_folder import find_run

RECIPE = "recipes/tiny-arithmetic.yaml"


@pytest.fixture
def store(monkeypatch):
    """That of a launch on two machines, of which this process is the first one's."""
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(server.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    given |= {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
    }
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(machines, "SECONDS", 20)
    yield machines._store()[0]
    del server


def second(store, folder, sees: bool = True, **other):
    """What the second machine says."""
    facts = (
        json.loads(json.dumps(machines._facts(folder), default=str))
        | {"name": "machine 1 (second)"}
        | other
    )
    store.set("run/1", json.dumps(facts))
    store.set("seen/1", json.dumps(sees))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"grpo.learning_rate": 2e-3},
            r"machine 1 \(second\) .*:\n  grpo.learning_rate: 0.002 and 5e-05\n",
        ),
        ({"grpo.beta": 0.1}, r"\n  grpo.beta: 0.1 and None\n"),
        ({"stage": "sft"}, r"\n  stage: sft and grpo\n"),
        ({"processes": "4"}, r"\n  processes: 4 and 1\n"),
        ({"hash of the code": "0"}, r"\n  hash of the code: 0 and \w{12}\n"),
        ({"trl": "1.15.0"}, r"\n  trl: 1.15.0 and "),
        (
            {"newest checkpoint": "x/checkpoint-4"},
            r"\n  newest checkpoint: x/checkpoint-4 and None\n",
        ),
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
    with pytest.raises(
        RecipeError, match=r"machine 1 \(second\) does not see .*: all machines must have"
    ):
        machines.require_same(folder)
    second(store, folder)
    machines.require_same(folder)
    assert not list((tmp_path / "there").iterdir())


def test_processes_that_were_started_again_ask_again(store, tmp_path, monkeypatch):
    """As by `--max_restarts`: the store still has what the first ones said."""
    folder = find_run(load_recipe(RECIPE, [f"output_dir={tmp_path}"], check=()), "grpo")
    second(store, folder, trl="1.15.0")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    second(machines._store()[0], folder)
    machines.require_same(folder)


def test_the_second_machine_looks_for_what_the_first_wrote(store, tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "LATE", 1)
    mark = tmp_path / ".machines"
    machines._leave_mark(mark, store)
    assert machines._sees(mark, store)
    with monkeypatch.context() as patched:
        stale = [OSError(errno.ESTALE, "as NFS says of a file that another machine replaced")]
        read = Path.read_text
        patched.setattr(
            Path,
            "read_text",
            lambda path, **how: _raise(stale.pop()) if stale else read(path, **how),
        )
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
