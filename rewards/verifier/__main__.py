"""Verdicts for lines of JSON, from stdin to stdout, in order: `python -m rewards.verifier <
answers.jsonl`.

A line has an `answer`, which is the whole response, its `gold`, and perhaps its `question` or a
`check`. It gives one line: the verdict, with whatever else the line had. A line that cannot be
judged gives its number and its error, and the exit code is then 1. Lines are judged as they come,
and no more of them is held than one read of a pipe gives.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import BinaryIO

from data.gold import RUNS, read_check
from rewards.verifier import judge_all
from rewards.verifier.checks import NotHeld

_LONGEST = 4 << 20  # bytes of a line; the rest of a longer one is not held
_READ = 1 << 20  # bytes


def main() -> int:
    """The exit code: 1 if a line could not be judged, 2 if this machine cannot run programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--strict", action="store_true", help="take only an answer in a closed <answer> block"
    )
    parser.add_argument(
        "--run-programs", action="store_true", help="allow checks that run what a response says"
    )
    given, number, failed = parser.parse_args(), 0, False
    try:
        for lines in _batches(sys.stdin.buffer):
            replies = _judged(lines, number + 1, given.strict, given.run_programs)
            number, failed = (
                number + len(lines),
                failed or any("error" in reply for reply in replies),
            )
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
    return int(failed)


def _batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that are there, without waiting for more once there is one."""
    rest = b""
    while chunk := stream.read1(_READ):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: _LONGEST + 1]
        if lines:
            yield lines
    if rest:
        yield [rest]


def _judged(lines: list[bytes], first: int, strict: bool, run_programs: bool) -> list[dict]:
    """A reply for each line; the first of them has the number `first`."""
    replies, rows = [], []
    for number, line in enumerate(lines, first):
        try:
            rows.append(_row(line, run_programs))
            replies.append({key: value for key, value in rows[-1].items() if key not in _KEYS})
        except ValueError as error:
            replies.append({"line": number, "error": str(error)})
    columns = [[row.get(key) or None for row in rows] for key in _KEYS]
    verdicts = iter(
        judge_all(
            [row["answer"] for row in rows], *columns[1:], strict=strict, run_programs=run_programs
        )
    )
    return [reply if "error" in reply else reply | asdict(next(verdicts)) for reply in replies]


_KEYS = ("answer", "gold", "question", "check")


def _row(line: bytes, run_programs: bool) -> dict:
    """What a line says, a gold that is a number as text.

    Raises:
        ValueError: it cannot be judged; the message says why.
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
    if missing := [
        key
        for key in ("answer", "gold")
        if key not in row and not (key == "gold" and row.get("check"))
    ]:
        raise ValueError(f"no `{missing[0]}`")
    for key in _KEYS:
        if not isinstance(row.get(key), str | None) or (key == "answer" and row[key] is None):
            raise ValueError(f"`{key}` is not text")
    if row.get("check") and read_check(row["check"])[0] in RUNS and not run_programs:
        raise ValueError("its check runs what the response says: allow it with --run-programs")
    return row


if __name__ == "__main__":
    sys.exit(main())
