"""A test sees nothing of the machine it did not make, and one that looks outside is caught."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests import place
from tests.place import SeenOutside
from tests.support import ROOT, run_program, tracked
from tests.waits import run_command

OUTPUTS = place.SOURCE / "outputs"
REPORT = """
import json, os, signal, sys
from tests import place
checkout = place.enter()
print(json.dumps({
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "outputs": os.path.exists("outputs"),
    "hangup": signal.getsignal(signal.SIGHUP) == signal.SIG_DFL,
    "umask": os.umask(0),
    "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, ())],
}))
"""


def test_a_users_own_rewards_are_not_copied():
    names = ["mine.py", "outputs", "README.md", "recipes"]
    assert place.not_copied(str(place.SOURCE), names) == {"mine.py", "outputs"}
    assert place.not_copied(str(place.SOURCE / "rewards"), ["tools.py"]) == set()


LOOKS_OUTSIDE = {
    "a reader": (OUTPUTS / "tiny-arithmetic/grpo/summary.json").read_text,
    "a lister": OUTPUTS.iterdir,
    "a writer": lambda: (OUTPUTS / "models").mkdir(parents=True),
    # The second of two paths leads outside.
    "a mover": lambda: Path("a file").rename(OUTPUTS / "file"),
    "a replacer": lambda: Path("a file").replace(OUTPUTS / "file"),
    "a hard link": lambda: (OUTPUTS / "file").hardlink_to("a file"),
    "a symbolic link": lambda: (OUTPUTS / "file").symlink_to("a file"),
}
if place.TEMPORARY != place.REAL_HOME:  # which is then the temporary folder, that tests use
    for name in (".cache/huggingface/hub", ".gitconfig"):
        LOOKS_OUTSIDE[f"a reader of ~/{name}"] = (place.REAL_HOME / name).read_text


@pytest.mark.parametrize("look", LOOKS_OUTSIDE.values(), ids=LOOKS_OUTSIDE)
def test_who_looks_outside_is_caught(look):
    with pytest.raises(SeenOutside, match="did not make"):
        list(look())


@pytest.mark.parametrize("below", ["", "tmp"])
def test_a_home_with_the_temporary_folder_in_it_is_a_home(below, tmp_path):
    """A container with HOME=/tmp, and a cluster with TMPDIR=$HOME/tmp."""
    (tmp_path / below).mkdir(exist_ok=True)
    strange = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path / below), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", f"{REPORT}open(os.path.abspath('here'), 'w')"]
    done = run_command(command, cwd=place.SOURCE, env=strange, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert not Path(json.loads(done.stdout)["environment"]["PLACE"]).exists()


def test_a_planted_reader_in_a_stage_is_caught(tmp_path):
    program = tmp_path / "reader.py"
    program.write_text(f"open({str(OUTPUTS / 'x')!r})")
    done = run_program(program, check=False)
    assert done.returncode and "did not make" in done.stderr


def test_a_planted_reader_in_a_new_python_finds_nothing(tmp_path):
    """It stands in the copy of the checkout, and its home is the session's."""
    program = "import pathlib; print(pathlib.Path('outputs').resolve(), pathlib.Path.home())"
    done = run_command([sys.executable, "-c", program], capture_output=True, text=True)
    outputs, home = map(Path, done.stdout.split())
    assert outputs.parent == ROOT != place.SOURCE
    assert home.parent == ROOT.parent and home != place.REAL_HOME


def test_nothing_of_the_machine_comes_through(tmp_path):
    """Under nohup, below make, in a job of Slurm, with another zone, umask and width of the
    terminal."""
    strange = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "MATH_DATA_DIR": "/data"}
    strange |= {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "0", "LC_ALL": "C"}
    names = (
        "ACCELERATE ARGS COLUMNS FORCE_COLOR HF_TOKEN HTTPS_PROXY MAKEFLAGS NO_COLOR PYTHONWARNINGS"
    )
    names += " RANK RECIPE WANDB_API_KEY WORLD_SIZE XDG_CACHE_HOME https_proxy"
    strange |= dict.fromkeys(names.split(), "8")
    blocks = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM});"
    blocks += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    python = [sys.executable, "-c", blocks, "-c", REPORT]
    command = ["sh", "-c", 'umask 077; trap "" HUP; exec "$@"', "sh", *python]
    done = run_command(
        command, cwd=place.SOURCE, env=strange, capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    environment = report["environment"]
    assert not environment.keys() & {*names.split(), "MATH_DATA_DIR", "LC_ALL"}
    assert environment["REAL_DATA"] == "/data" and environment["REAL_HOME"] == str(tmp_path)
    assert (environment["OMP_NUM_THREADS"], environment["CUDA_VISIBLE_DEVICES"]) == ("1", "-1")
    assert report["folder"] == f"{environment['PLACE']}/checkout" and not report["outputs"]
    assert report["hangup"] and report["umask"] == 0o022 and not report["blocked"]
    assert not Path(environment["PLACE"]).exists(), "it is removed at the end"


def test_without_git_all_files_are_listed(monkeypatch):
    listed = tracked("recipes/*.yaml")
    monkeypatch.setenv("PATH", "/nowhere")
    assert set(listed) <= set(tracked("recipes/*.yaml"))
