"""One process writes into a folder, and a disk that refuses is one message."""

import builtins
import errno
import fcntl
import os
import platform
import shlex
import signal
import stat
import subprocess
import sys

import pytest

from console.faults import RecipeError, RunStopped
from runs import files, refusals
from runs.files import write_whole
from runs.refusals import unwritten
from tests.stage_process import Started
from tests.support import FEW_PROBLEMS, ROOT, as_process_1, refused, send
from tests.tables import cases, row_cases
from tests.waits import run_command, start_command, until

RUN = """sft=null grpo.max_steps=4 grpo.save_steps=2 grpo.num_iterations=1
    grpo.per_device_train_batch_size=16 grpo.num_generations=4"""
RUN = ["recipes/tiny-arithmetic.yaml", *FEW_PROBLEMS, *shlex.split(RUN)]


def command(folder, stage: str = "grpo") -> list[str]:
    return [sys.executable, "-m", "stages", stage, *RUN, f"output_dir={folder}"]


@pytest.mark.train
def test_of_two_starts_at_one_moment_one_trains(tmp_path):
    run, words = tmp_path / "run", command(tmp_path / "run")[3:]
    starts = [Started("stages", *words, cwd=ROOT) for _ in range(2)]
    codes = [start.ended().returncode for start in starts]
    trained, refused_start = starts if codes == [0, 2] else reversed(starts)
    assert sorted(codes) == [0, 2]
    process = trained.processes[0].pid
    holder = f"process {process} on {platform.node()}"
    assert f"{run}/grpo is in use by {holder}: wait" in refused_start.printed("stderr")
    assert "grpo: done, in" in trained.printed("stdout")
    assert (run / "grpo/report.md").is_file()


def test_a_folder_that_was_only_locked_is_removed(tmp_path):
    words = [RUN[0], f"output_dir={tmp_path}/x/y", "sft.max_length=2"]
    assert "max_length" in refused("sft", *words)
    assert list(tmp_path.iterdir()) == []


LOCK = """
import sys; from pathlib import Path; from runs.files import lock
folder = Path(sys.argv[1])
lock(folder)
(folder / ".lock").read_text()
"""


@pytest.mark.parametrize("stage", ["sft", "rejection-sampling", "probe", "evaluate"])
def test_a_stage_leaves_a_locked_folder_as_it_is(stage, tmp_path):
    folder = tmp_path / {
        "evaluate": "eval/validation",
        "rejection-sampling": "rejection_sampling",
    }.get(stage, stage)
    words = [sys.executable, "-c", f"{LOCK}input()", folder]
    holder = start_command(words, cwd=ROOT, stdin=subprocess.PIPE)
    until(lambda: (folder / ".lock").is_file() and (folder / ".lock").read_text(), running=[holder])
    (folder / "data.json").write_text("{}")
    overrides = [f"output_dir={tmp_path}", "data.rejection_sampling={samples: 2, problems: 2}"]
    if stage == "evaluate":
        overrides.append("--validation")
    refusal = refused(stage, RUN[0], *overrides)
    holder.communicate(b"\n", timeout=60)
    assert f"{folder} is in use by process {holder.pid} on {platform.node()}: wait" in refusal
    assert {each.name for each in folder.iterdir()} == {".lock", "data.json"}


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        (b"123 node-7.example.org 0f\n", "process 123 on node-7.example.org"),
        (b"123\n", "process 123"),  # of an earlier version
        (b"", "a process"),
        (b"1 \x1b[2J 0f\n", "a process"),
        (b"\xff\xfe\x00" * 9, "a process"),
        (b"x" * 10**6, "a process"),
    ],
)
def test_who_has_a_folder_is_told_in_a_line(text, holder, tmp_path):
    with (tmp_path / ".lock").open("w+b") as file:
        file.write(text)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RecipeError) as told:
            files.lock(tmp_path)
    assert str(told.value).startswith(f"{tmp_path} is in use by {holder}: wait for it")


def test_a_folder_that_another_machine_has_locked_since_is_left_to_it(tmp_path, monkeypatch):
    """On a disk whose locks hold on one machine alone."""
    monkeypatch.setattr(files, "_locks", {})
    files.require_lock(tmp_path)  # of a folder that nobody has locked
    files.lock(tmp_path)
    files.require_lock(tmp_path)
    held = files._locks
    monkeypatch.setattr(files, "_locks", {})
    monkeypatch.setattr(files.platform, "node", lambda: "node-7")
    monkeypatch.setattr(files.fcntl, "flock", lambda *_: None)
    files.lock(tmp_path)
    files.require_lock(tmp_path)
    monkeypatch.setattr(files, "_locks", held)
    with pytest.raises(RunStopped) as told:
        files.require_lock(tmp_path)
    assert f"{tmp_path} was taken over by process {os.getpid()} on node-7" in str(told.value)
    (tmp_path / ".lock").unlink()  # by a person
    files.require_lock(tmp_path)


def test_what_a_killed_process_has_forked_holds_no_folder(tmp_path):
    forks = "import os, time\nos.fork() or time.sleep(600)\nos.kill(os.getpid(), 9)"
    words = [sys.executable, "-c", f"{LOCK}{forks}", tmp_path]
    holder = start_command(words, cwd=ROOT, start_new_session=True)
    try:
        assert holder.wait(60) == -signal.SIGKILL
        with (tmp_path / ".lock").open("a+") as file:
            until(lambda: locks(file), 60)  # the fork may not have run yet
    finally:
        os.killpg(holder.pid, signal.SIGKILL)


def locks(file) -> bool:
    """Whether nobody else has the lock on a file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_a_disk_without_locks_that_syncs_no_folder_is_told_and_used(tmp_path, monkeypatch, capsys):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    def syncs_files(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(files, "_locks", {})
    monkeypatch.setattr(files.fcntl, "flock", refused)
    monkeypatch.setattr(os, "fsync", syncs_files)
    files.lock(tmp_path / "x")
    write_whole(tmp_path / "x/y", "z")
    warning = f"{tmp_path}/x is on a disk without locks (No locks available): start no"
    assert warning in capsys.readouterr().out


@cases(__file__, "errors")
def test_a_disk_that_refuses_is_told(kind, number, text, file, said, tmp_path, monkeypatch):
    monkeypatch.setattr(refusals, "run_folders", [])  # other tests train in this process
    arguments = [text] if number is None else [getattr(errno, number), text]
    if file:
        arguments.append(file)
    error = getattr(builtins, kind)(*arguments)
    run = tmp_path / "a b"
    if said is None:
        assert unwritten(error) is None
        return
    stopped = unwritten(error)
    assert str(stopped).startswith(said) and stopped.exit_code == 2
    monkeypatch.setattr(refusals, "run_folders", [run])
    assert f"{run} was moved or removed" in str(unwritten(error))
    run.mkdir()
    stopped = unwritten(error)
    assert str(stopped).endswith("Nothing has been saved yet") and stopped.exit_code == 3
    (run / "summary.json").write_text('{"steps": 3}')
    command = str(unwritten(error)).partition(" The run is finished; make report ")[2]
    assert shlex.split(command) == [f"FILE={shlex.quote(str(run))}"]


def test_a_cache_in_a_home_that_refuses_may_be_elsewhere(tmp_path, monkeypatch):
    """As in a container whose home is read-only, or on a cluster whose homes are small."""
    monkeypatch.setattr(refusals, "run_folders", [])
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = tmp_path / ".cache/huggingface/hub"
    for number in (errno.EROFS, errno.EACCES, errno.EDQUOT, errno.ENOENT):
        message = str(unwritten(OSError(number, os.strerror(number), str(cache))))
        assert message.startswith(f"{cache} cannot be written or read (")
        assert message.endswith(", or set HOME to another folder.")
    run = tmp_path / "grpo-recipes/outputs/x/grpo/a"  # of a checkout in the home
    refused_file = OSError(errno.EROFS, "Read-only file system", str(run))
    assert "HOME" not in str(unwritten(refused_file))


DISK = ["unshare", "-rm", "sh", "-c"]


def on_disk(folder, script: str) -> subprocess.CompletedProcess:
    """A shell in a mount namespace of its own, with a file system of 10 MB at the folder."""
    if run_command([*DISK, "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    folder.mkdir()
    disk = shlex.quote(str(folder))
    mounted = f"mount -t tmpfs -o size=10m tmpfs {disk}; cd {shlex.quote(str(ROOT))}; {script}"
    return run_command([*DISK, mounted], capture_output=True, text=True)


@row_cases(__file__, "read_only")
def test_outputs_that_are_read_only_are_one_message(row, tmp_path):
    words = shlex.join([*command(tmp_path / "disk", row.stage), *row.set])
    disk = shlex.quote(f"{tmp_path}/disk")
    done = on_disk(tmp_path / "disk", f"mount -o remount,ro {disk}; {words}")
    assert done.returncode == 2, done.stderr[-3000:]
    assert "Read-only file system" in done.stderr and "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr.strip().splitlines()[-1]


FULL = """
import os, pkgutil, sys
owner = pkgutil.resolve_name("{owner}")
write = owner.{function}
def fills(*given, **named):
    with open("{disk}/fill", "wb") as file:
        try:
            while True:
                file.write(bytes(4096))
                file.flush()
        except OSError:
            pass
    return write(*given, **named)
owner.{function} = fills
from stages.cli import run
from stages.grpo import main
run("grpo", main)
"""


@pytest.mark.train
@row_cases(__file__, "full_disk")
def test_a_full_disk_is_one_message(row, tmp_path):
    disk = tmp_path / "disk"
    program = tmp_path / "full.py"
    program.write_text(FULL.format(owner=row.owner, function=row.function, disk=disk))
    words = [sys.executable, str(program), *RUN, "grpo.logging_steps=1", f"output_dir={disk}"]
    done = on_disk(disk, f"PYTHONPATH=. {shlex.join(words)}")
    message = done.stderr[-3000:]
    assert "Traceback" not in done.stderr and done.returncode == 3, message
    assert "(No space left on device): make room" in done.stderr, message
    assert row.says in done.stderr, message


PRINTS = """
import sys
from stages.cli import mistakes_reported
with mistakes_reported():
    sys.stdin.read()
    for number in range(9):
        print(number, "→", file=sys.{stream})
    sys.exit(7)
"""


def test_a_full_disk_under_the_output_is_one_message():
    words = ["bash", "-c", '"$@" >/dev/full', "sh", sys.executable, "-c"]
    words.append(PRINTS.format(stream="stdout"))
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = run_command(words, cwd=ROOT, env=environment, **pipes)
    message = (
        "a file or standard output cannot be written or read (No space left on device): make room"
    )
    assert done.returncode == 2 and done.stderr.strip().startswith(message)
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_reader_that_is_gone_ends_a_stage_without_a_trace():
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", PRINTS.format(stream="stdout")]
    process = start_command(command, cwd=ROOT, **pipes)
    process.stdout.close()
    process.stdin.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


HANGS_UP = """
import os, signal, sys
from stages.cli import mistakes_reported
with mistakes_reported():
    os.kill(os.getpid(), signal.SIGHUP)
    sys.exit(7)
"""


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hangup_ends_a_stage_that_trains_nothing_but_under_nohup(ignored):
    command = ["nohup"] * ignored + [sys.executable, "-c", HANGS_UP]
    assert run_command(command, cwd=ROOT, capture_output=True).returncode == (7 if ignored else 75)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_process_1_is_ended_while_it_imports(number):
    """Of a container, for which the kernel's default is to do nothing."""
    program = "import os, sys, time; sys.argv[0] = '-m'; import stages"
    program += "; print(os.getpid(), flush=True); time.sleep(60)"
    process = as_process_1([sys.executable, "-c", program])
    assert process.stdout.readline() == "1\n"
    send(process, number)
    assert process.wait(30) == (130 if number == signal.SIGINT else 75)
