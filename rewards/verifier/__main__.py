"""Judge lines of JSON from stdin to stdout, in order: `grpo-verifier < answers.jsonl`, or
`python -m rewards.verifier` where it is not installed.

A line has an `answer`, which is the complete response, its `gold`, and perhaps its `question` or a
`check`. The output has a line for it, with the verdict and the other keys of the input. A line that
cannot be judged leads to a line with its number and its error, and the exit code is then 1. Lines
are judged as they come, and only those of one read of the pipe are in memory.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import BinaryIO

from . import CONTRACT, judge_all
from .checks import NotHeld
from .extract import READINGS
from .gold import RUNS, read_check

_LONGEST = 4 << 20  # bytes of a line; more of a longer one are not kept in memory
_READ = 1 << 20  # bytes


def main() -> int:
    """Judge stdin and return the exit code: 1 if a line could not be judged, 2 if this machine
    cannot run programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = "where the answer may stand"
    parser.add_argument("--reading", choices=READINGS, default=CONTRACT, help=where)
    parser.add_argument(
        "--run-programs", action="store_true", help="allow checks that run what a response says"
    )
    options = parser.parse_args()
    count = 0
    has_failed = False
    try:
        for lines in _batches(sys.stdin.buffer):
            replies = _judge_lines(lines, count + 1, options.reading, options.run_programs)
            count += len(lines)
            has_failed = has_failed or any("error" in reply for reply in replies)
            sys.stdout.write("".join(json.dumps(reply) + "\n" for reply in replies))
            sys.stdout.flush()
    except NotHeld as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 1 if has_failed else 0


def _batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that have arrived, without waiting for more once there is one."""
    unfinished = b""
    while chunk := stream.read1(_READ):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        unfinished = unfinished[: _LONGEST + 1]
        if lines:
            yield lines
    if unfinished:
        yield [unfinished]


def _judge_lines(lines: list[bytes], first: int, reading: str, run_programs: bool) -> list[dict]:
    """Return a reply for every line; the first line has the number `first`."""
    replies = []
    rows = []
    for number, line in enumerate(lines, first):
        try:
            row = _read_row(line, run_programs)
        except ValueError as error:
            replies.append({"line": number, "error": str(error)})
            continue
        rows.append([row.get(key) for key in _KEYS])
        replies.append({key: value for key, value in row.items() if key not in _KEYS})
    columns = zip(*rows, strict=True) if rows else [[]] * len(_KEYS)
    verdicts = iter(judge_all(*columns, reading=reading, run_programs=run_programs))
    return [reply if "error" in reply else reply | asdict(next(verdicts)) for reply in replies]


_KEYS = ("answer", "gold", "question", "check")  # in the order of the parameters of judge_all


def _read_row(line: bytes, run_programs: bool) -> dict:
    """Return the object of a line, with its gold as text.

    Raises:
        ValueError: the line cannot be judged; the message has the cause.
    """
    if len(line) > _LONGEST:
        raise ValueError(f"longer than {_LONGEST:,} bytes")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not an object")
    if type(row.get("gold")) in (int, float):
        row["gold"] = json.dumps(row["gold"])
    if "answer" not in row:
        raise ValueError("no `answer`")
    if "gold" not in row and not row.get("check"):
        raise ValueError("no `gold`")
    for key in _KEYS:
        if not isinstance(row.get(key), str | None) or (key == "answer" and row[key] is None):
            raise ValueError(f"`{key}` is not text")
    if row.get("check") and read_check(row["check"])[0] in RUNS and not run_programs:
        raise ValueError("its check runs what the response says: allow it with --run-programs")
    return row


if __name__ == "__main__":
    sys.exit(main())
