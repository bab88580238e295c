"""The rows of a file: a table with commas, semicolons or tabs, JSON, or parquet.

Python's own `csv` and `json` and pyarrow read it. They keep a number as it is written and know its
line. pandas and `datasets` make 5.0 of a 5 where another row has none, and a date of "2024-03-04",
and refuse all rows for one value of another type; encodings and delimiters they leave to us.
"""

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any


class DataError(ValueError):
    """A mistake in the data or in how the recipe names it; the message says which, where and what
    to do. A line break in a name of the data begins no line of ours."""

    def __init__(self, message: str):
        super().__init__(message.replace("\n", "\\n"))


class DataNotReached(DataError):
    """The Hub cannot be reached: the same recipe may find its data tomorrow, or on another
    machine."""


def read_files(source: Path, files: list[Path]) -> list[dict]:
    """The rows of all files of a source. Raises DataError where a file cannot be read."""
    rows = []
    for file in files:
        suffix = Path(file.name.removesuffix(".gz")).suffix
        if file.suffix == ".gz" and suffix not in TEXTS:
            raise DataError(f"{file}: what is compressed must end in {', '.join(TEXTS)}")
        try:
            rows += READERS[suffix](file)
        except RecursionError:
            raise DataError(f"{source} is nested too deeply") from None
    return rows


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
        if file.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    for beginning, (kind, advice) in OTHER_KINDS.items():
        if data.startswith(beginning):
            raise DataError(f"{file} is {kind}, by its first bytes: {advice}")
    try:
        return data.decode(json.detect_encoding(data))  # of any text that begins in ASCII
    except UnicodeDecodeError as error:
        if file.name.removesuffix(".gz").endswith(TABLES):
            with contextlib.suppress(UnicodeDecodeError):  # as spreadsheets in Europe save them
                return data.decode("cp1252")
        raise DataError(f"{file} is not UTF-8 ({error}): save it in that encoding") from error


def _csv(file: Path) -> list[dict]:
    """The rows of a table. Its cells are separated by what its first line has most of, commas,
    semicolons or tabs, or by what a spreadsheet says in a line `sep=;`. An empty cell is None."""
    text = _text(file)
    first_line, _, after = text.lstrip("\r\n").partition("\n")
    delimiter = max(",;\t", key=first_line.count)
    if re.fullmatch(r"sep=.\r?", first_line):
        delimiter = first_line[4]
        text = f"\n{after}"
    csv.field_size_limit(2**30)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    rows = []
    try:
        for cells in lines:
            place = f"{file} line {lines.line_num}"
            if not names:
                require_distinct(place, cells)
                names = cells
            elif len(cells) > len(names):
                raise DataError(
                    f"{place} has {len(cells)} cells, and the first line names {len(names)}: put a"
                    f" text that has a {delimiter} in quotes{_quoted(cells, names, delimiter)}"
                )
            elif cells:
                values = [_cell(cell, delimiter) for cell in cells]
                rows.append(dict(zip_longest(names, values)))
    except csv.Error as error:
        raise DataError(f"{file} line {lines.line_num} cannot be read: {error}") from error
    return rows


def _quoted(cells: list[str], names: list[str], delimiter: str) -> str:
    """`, perhaps "a, b",4` for a line whose text was read as two cells; empty where that is not
    clear."""
    if len(cells) != len(names) + 1:
        return ""
    split = [number for number, cell in enumerate(cells) if number and cell.startswith(" ")]
    second = split[0] if split else 1
    text = delimiter.join(cells[second - 1 : second + 1])
    line = delimiter.join([*cells[: second - 1], f'"{text}"', *cells[second + 1 :]])
    return f", perhaps {line}" if len(line) < 200 else ""


def _cell(text: str, delimiter: str) -> str | None:
    # Where commas separate no cells they are a decimal's, if none of thousands.
    if delimiter == ";" and re.fullmatch(r"-?\d+,(\d|\d\d|\d{4,})", text):
        return text.replace(",", ".")
    return text or None


def _json(file: Path) -> list[dict]:
    """A list of objects, `{"data": [...]}`, or objects in lines, which the Hub also calls JSON."""
    try:
        value = json.loads(_text(file), object_pairs_hook=_of_different_keys)
    except _Repeated as error:
        raise DataError(f"{file} {error}") from None
    except ValueError:
        return _json_lines(file)
    if isinstance(value, dict):
        value = value.get("data", value)
    if isinstance(value, dict):
        if all(isinstance(cell, dict | list) for cell in value.values()):
            raise DataError(
                f"{file} holds columns, not rows: write a list, as pandas does with"
                " `orient='records'`"
            )
        value = [value]
    return [_object(row, f"{file} row {number}") for number, row in enumerate(value, 1)]


def _json_lines(file: Path) -> list[dict]:
    rows = []
    text = _text(file)
    is_list = re.match(r"\s*\[\s*[{\]]", text)
    if is_list and file.name.removesuffix(".gz").endswith(".jsonl"):
        name = file.name.replace(".jsonl", ".json")
        raise DataError(f"{file} holds a list, and a .jsonl an object a line: rename it to {name}")
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{file} line {number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_of_different_keys)
        except _Repeated as error:
            raise DataError(f"{place} {error}") from None
        except RecursionError:
            raise DataError(f"{place} is nested too deeply") from None
        except ValueError as error:
            raise DataError(f"{place} is not JSON: {error}") from error
        rows.append(_object(row, place))
    return rows


class _Repeated(ValueError):
    """An object has a key twice, of which json would take the last."""


def _of_different_keys(pairs: list[tuple[str, Any]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        key = next(key for key in keys if keys.count(key) > 1)
        raise _Repeated(f"has the key {key!r} twice in one object: keep one of them")
    return values


def _object(row: object, place: str) -> dict:
    if not isinstance(row, dict):
        raise DataError(f"{place} is {str(row)[:40]!r}, not an object with a problem and an answer")
    return row


def read_parquet(file: Path, columns: tuple[str, ...] = ()) -> list[dict]:
    """The rows of a parquet file that has these columns.

    Raises:
        DataError: it lacks a column, or cannot be read.
    """
    import pyarrow.parquet

    try:
        with file.open("rb") as opened:  # pyarrow might take a bare name for an address
            table = pyarrow.parquet.ParquetFile(opened)
            require_distinct(str(file), table.schema_arrow.names)
            require_columns(str(file), table.schema_arrow.names, columns)
            return table.read(use_threads=False).to_pylist()
    except (DataError, MemoryError):
        raise
    except Exception as error:  # dates that Python cannot hold, bytes that are no text, and more
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{file} cannot be read: {reason}") from error


def require_distinct(place: str, names: Iterable[str]):
    """Refuse two columns of one name: a row would hold the last of them alone. Columns without a
    name, as spreadsheets write them behind the last one, may be several."""
    counts = Counter(name.strip() for name in names)
    for name, count in counts.items():
        if name and count > 1:
            message = f"{place}: {count} columns are called {name!r}: rename or remove all but one"
            raise DataError(message)


def require_columns(source: str, names: list[str], columns: tuple[str, ...]):
    """Refuse a source that lacks one of these columns."""
    missing = [column for column in columns if column not in names]
    if missing:
        message = f"{source} has the columns {', '.join(names)}, but {', '.join(missing)} is needed"
        raise DataError(message)


# Files that end in .csv or .json and are something else, by their first bytes.
OTHER_KINDS = {
    b"PK\x03\x04": ("a spreadsheet or a zip", "save it as CSV"),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet", "save it as CSV"),
    b"\x1f\x8b": ("compressed", "let its name end in .gz"),
    b"PAR1": ("parquet", "let its name end in .parquet"),
    b"%PDF": ("a PDF", "save its table as CSV"),
    b"version https://git-lfs": ("a pointer of Git LFS", "fetch the file, as by git lfs pull"),
    b"<!DOCTYPE html": ("a web page", "download the file itself"),
    b"<html": ("a web page", "download the file itself"),
}
TABLES = (".csv", ".tsv")
TEXTS = (*TABLES, ".json", ".jsonl")  # which may be compressed
READERS: dict[str, Callable[[Path], list[dict]]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": read_parquet,
    ".tsv": _csv,
}
FILE_TYPES = (*READERS, ".gz")
