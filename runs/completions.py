"""What a run sampled: `completions/completions_<step>.parquet`, the batch of each logged step."""

import re
from collections.abc import Iterator
from pathlib import Path

from data.sources import DataError, read_parquet

FILE = re.compile(r"completions_(\d{1,15})\.parquet")


def files(run: Path) -> list[Path]:
    """The files of completions, by step."""
    folder = run / "completions"
    if folder.is_symlink() or not folder.is_dir():
        return []
    names = [each.name for each in folder.iterdir() if FILE.fullmatch(each.name)]
    names.sort(key=lambda name: int(name[12:-8]))
    return [folder / name for name in names if (folder / name).is_file() and not (folder / name).is_symlink()]


def batches(run: Path, columns: tuple[str, ...]) -> Iterator[tuple[Path, list[dict]]]:
    """The files of completions that a GRPO run wrote, by step, each with its rows; one that is used for several steps,
    and written at each, once.

    Raises:
        DataError: a file is not what a run wrote.
    """
    before = None
    for file in files(run):
        rows = read_parquet(file, columns)
        batch = [[row[name] for name in columns] for row in rows]
        if batch != before:
            yield file, rows
        before = batch


def some_groups(run: Path) -> list[list[dict]]:
    """The first group of the first, the middle and the last file of completions: rows of one prompt."""
    there, groups = files(run), []
    for i in sorted({0, len(there) // 2, len(there) - 1}) if there else []:
        try:
            rows = read_parquet(there[i], ("step", "prompt", "completion", "advantage"))
        except DataError:  # torn by a full disk, or a stranger's
            continue
        mine = [row for row in rows if row["prompt"] == rows[0]["prompt"]]
        groups += [mine] if len(mine) > 1 else []  # one alone is an answer to a held-out problem
    return groups


def at_once(run: Path) -> int | None:
    """How many completions a run sampled at once, on all processes: the rows of the largest file, for trl keeps the
    last batch whole. None where no file can be read."""
    import pyarrow.parquet

    rows = []
    for file in files(run):
        try:
            with file.open("rb") as opened:
                rows.append(pyarrow.parquet.ParquetFile(opened).metadata.num_rows)
        except (pyarrow.ArrowException, OSError):  # torn by a full disk, or a stranger's
            continue
    return max(rows, default=None)
