"""Damage to the files of a checkpoint, and a disk without room for one."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.faults.arena import Arena
from tests.faults.outcome import Fault, Outcome, Required
from tests.support import ROOT
from tests.waits import run_command


def damaged(damage: Callable[[Path], None]) -> Callable[[Arena], Outcome]:
    """A killed run whose newest checkpoint is then damaged."""

    def inject(arena: Arena) -> Outcome:
        arena.interrupted()
        damage(arena.newest())
        return arena.compared(arena.run())

    return inject


def truncated(folder: Path):
    os.truncate(folder / "optimizer.pt", 100_000)


def all_truncated(newest: Path):
    for each in newest.parent.glob("checkpoint-*"):
        truncated(each)


def without(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def flipped(file: str, at: int) -> Callable[[Path], None]:
    """One bit of a file."""

    def damage(folder: Path):
        content = bytearray((folder / file).read_bytes())
        content[at] ^= 0b100
        (folder / file).write_bytes(content)

    return damage


def torn(folder: Path):
    (folder / "manifest.json").write_text('{"step": 4, "fi')


def full_disk(arena: Arena) -> Outcome:
    """A file system of 10 MB of its own, which a checkpoint of 3 MB fills; then another 30 MB."""
    mount = arena.folder / "disk"
    mount.mkdir()
    ours = " ".join(f"'{each}'" for each in arena.command(mount))
    script = f"""
        mount -t tmpfs -o size=10m tmpfs {mount} && cp -r {arena.folder}/sft {mount}/ || exit 99
        HF_HUB_OFFLINE=1 {ours} > {arena.folder}/first 2>&1; echo $? > {arena.folder}/code
        mount -o remount,size=40m {mount}
        HF_HUB_OFFLINE=1 {ours} > {arena.folder}/second 2>&1
        cp -r {mount}/grpo {arena.grpo}
    """
    done = run_command(
        ["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode == 99:
        raise RuntimeError(f"no file system can be mounted here: {done.stderr.decode()}")
    code, said = int((arena.folder / "code").read_text()), (arena.folder / "first").read_text()
    return arena.compared(Outcome(code, said.replace(str(arena.folder), "…")))


PASSED = Required(says=("passed over",))
FAULTS = [
    Fault("optimizer.pt truncated", damaged(truncated), PASSED),
    Fault("optimizer.pt missing", damaged(without("optimizer.pt")), PASSED),
    Fault("scheduler.pt missing", damaged(without("scheduler.pt")), PASSED),
    Fault("rng_state.pth missing", damaged(without("rng_state.pth")), PASSED),
    Fault("a bit of the weights flipped", damaged(flipped("model.safetensors", -5000)), PASSED),
    Fault("a bit of the optimizer flipped", damaged(flipped("optimizer.pt", 500_000)), PASSED),
    Fault("the manifest torn", damaged(torn), PASSED),
    Fault("every checkpoint truncated", damaged(all_truncated), PASSED),
    Fault("disk full", full_disk, Required(3, ("no room for a checkpoint",))),
]
