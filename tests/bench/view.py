"""How fast is the page of `make view` on a large run, and how much memory does its server take?

`python -m tests.bench.view` makes a run of 50,000 completions of about 1,000 characters, serves it, and asks what the
page asks: for the first view, for the list of all groups, for single groups, and for the curves again.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from tests.viewer import made
from tests.viewer.test_server import ask, served

BATCH, CHARACTERS = 64, 1_000


def main(completions: int):
    with tempfile.TemporaryDirectory() as folder:
        run = made.run(Path(folder) / "outputs/large", steps=1)
        steps, random = completions // BATCH, np.random.default_rng(0)
        frame = pd.read_parquet(run / "completions/completions_00001.parquet")
        frame = pd.concat([frame] * (-(-BATCH // len(frame)))).head(BATCH)
        line = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[0])
        with (run / "metrics.jsonl").open("w", encoding="utf-8") as file:
            for step in range(1, steps + 1):
                digits = random.integers(0, 10, (BATCH, CHARACTERS // 2))
                text = [" ".join(map(str, row)) for row in digits]
                frame["completion"] = [[{"role": "assistant", "content": each}] for each in text]
                frame.assign(step=step).to_parquet(run / f"completions/completions_{step:05d}.parquet")
                file.write(json.dumps(line | {f"more/{i}": random.random() for i in range(20)} | {"step": step}) + "\n")
        with served(run) as (process, port):
            print(f"{steps * BATCH:,} completions in {steps:,} files, as a server on this machine answers:")
            first = sum(timed(port, each) for each in ("/", "/app.js", "/api/runs", "/api/0/curves"))
            print(f"first view            {first:.2f} s")
            print(f"list of all groups    {timed(port, '/api/0/groups'):.2f} s")
            print(f"the list again        {timed(port, '/api/0/groups'):.2f} s")
            groups = [timed(port, f"/api/0/group/{step}/{step % 8}") for step in range(1, steps, max(1, steps // 50))]
            print(
                f"a group               {statistics.median(groups):.3f} s, longest of {len(groups)} {max(groups):.3f} s"
            )
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            most = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
            print(f"most memory           {most / 1024:.0f} MiB")


def timed(port: int, path: str) -> float:
    began = time.perf_counter()
    status, _, body = ask(port, path)
    assert status == 200, body
    return time.perf_counter() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--completions", type=int, default=50_000)
    main(parser.parse_args().completions)
