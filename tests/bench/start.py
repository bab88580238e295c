"""How long `make` takes to say no, to the first training step, and for the whole default chain; here and in another
checkout of this repository that has a `.venv` (a link to this one will do), in alternating order:

    python -m tests.bench.start ../before --pairs 3 [--chain]
"""

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def misspelt(tree: Path, folder: str) -> float:
    """Seconds until a misspelt key is told."""
    return until(tree, "grpo", "grpo.max_step=1", "did you mean max_steps?")


def first_step(tree: Path, folder: str) -> float:
    """Seconds until the first step of the warm start is trained."""
    return until(tree, "grpo", f"output_dir={folder}/run sft.logging_steps=1", "step   1/350")


def chain(tree: Path, folder: str) -> float:
    """Seconds of `make grpo` from nothing to its table."""
    return until(tree, "grpo", f"output_dir={folder}/run", "base → grpo: +")


def until(tree: Path, target: str, arguments: str, said: str) -> float:
    """Seconds until a make target says something, after which it is stopped."""
    command = ["make", target, f"ARGS={arguments}"]
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if said in line:
                took = time.monotonic() - began
                os.killpg(process.pid, signal.SIGKILL)
                return took
    raise RuntimeError(f"{tree} never said {said!r}:\n{''.join(lines[-20:])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--chain", action="store_true", help="the whole chain too: two minutes a pair")
    options = parser.parse_args()
    for measured in (misspelt, first_step, *([chain] if options.chain else [])):
        took: dict[Path, list[float]] = {options.before: [], Path(): []}
        for pair in range(options.pairs):
            for tree in list(took)[:: 1 if pair % 2 else -1]:
                with tempfile.TemporaryDirectory() as folder:
                    took[tree].append(measured(tree, folder))
        before, here = (statistics.median(each) for each in took.values())
        ratios = [a / b for a, b in zip(took[Path()], took[options.before], strict=True)]
        print(
            f"{measured.__doc__} before {before:.1f}, here {here:.1f}; ratio, median {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
