"""One function per data set, which reads it from the Hub or from a folder of parquet files with the
Hub's columns.

Every function returns rows `{"problem", "solution", "reasoning"}`: the question, the gold answer,
and (where the data has one) a worked solution without its final line, which is what the SFT warm
start learns to write inside `<think> </think>`. They also have `level` and `subject` where the data
does. A row whose problem or gold is missing has None there; `data.problems.load` drops and counts
it.
"""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from data import hub
from data.files import DataError, DataNotReached, read_parquet, require_columns

# The sets to train on that are on the Hub: their id, and the licence that their card there names,
# where that was read.
HUB = {
    "gsm8k": ("openai/gsm8k", "mit"),
    "math": ("DigitalLearningGmbH/MATH-lighteval", "mit"),
    "svamp": ("ChilleD/SVAMP", None),
}


def gsm8k(split: str, folder: Path | None = None) -> list[dict]:
    """GSM8K (Cobbe et al. 2021, arXiv:2110.14168), 7,473 train and 1,319 test problems. A raw row:

    `{"question": "Natalia sold clips to 48 of her friends …", "answer": "Natalia sold 48/2 =
    <<48/2=24>>24 clips in May.\\nNatalia sold 48+24 = <<48+24=72>>72 clips altogether in April and
    May.\\n#### 72"}`
    """
    file = f"gsm8k-{split}.parquet"
    return _read(HUB["gsm8k"][0], "main", split, folder, file, "question answer", _gsm8k_row)


def _gsm8k_row(row: dict) -> dict:
    from rewards.verifier import gold_answer, worked_solution

    gold = gold_answer(row["answer"])
    if gold is None or not re.fullmatch(r"-?\d+(\.\d+)?", gold):
        return _row(row["question"], None)
    return _row(row["question"], gold, reasoning=worked_solution(row["answer"]))


def math(split: str, folder: Path | None = None) -> list[dict]:
    """MATH (Hendrycks et al. 2021, arXiv:2103.03874), 7,500 train and 5,000 test problems. A raw
    row:

    `{"problem": "What is $2^3$?", "level": "Level 1", "type": "Algebra", "solution": "We have $2^3
    = \\boxed{8}$."}`
    """
    file = f"math-{split}.parquet"
    return _read(HUB["math"][0], None, split, folder, file, "problem solution", _math_row)


def svamp(split: str, folder: Path | None = None) -> list[dict]:
    """SVAMP (Patel et al. 2021, arXiv:2103.07191), 700 train and 300 test problems, with their
    `Type` as subject. Its equation `( ( 8.0 - 3.0 ) * 2.0 )` is the reasoning, a line per step: `8
    - 3 = 5`, then `5 * 2 = 10`.
    """
    file = f"svamp-{split}.parquet"
    return _read(HUB["svamp"][0], None, split, folder, file, "Body Question Answer", _svamp_row)


# What a row raises that has no equation, or none of four operations on numbers.
NO_EQUATION = (KeyError, AttributeError, TypeError, ValueError, SyntaxError, ArithmeticError)
NO_EQUATION += (RecursionError, MemoryError)


def _svamp_row(row: dict) -> dict:
    gold = _whole_number(row["Answer"])
    problem = f"{row['Body'].rstrip(' .')}. {row['Question']}"
    steps = []
    try:
        equation = row["Equation"].strip()[:1000]  # a stranger's, too, is read in no time
        agrees = _worked_out(ast.parse(equation, mode="eval").body, steps) == _number(gold)
    except NO_EQUATION:
        agrees = False
    svamp_row = _row(problem, gold, subject=row.get("Type"))
    if agrees and steps:
        svamp_row["reasoning"] = "\n".join(steps)
    return svamp_row


_OPERATIONS = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
}


def _worked_out(expression: ast.expr, steps: list[str]) -> Fraction:
    """The value; its steps are appended in the order in which they are computed."""
    if isinstance(expression, ast.Constant):
        return _number(expression.value)
    left_side = _worked_out(expression.left, steps)
    right_side = _worked_out(expression.right, steps)
    sign, compute = _OPERATIONS[type(expression.op)]
    value = compute(left_side, right_side)
    steps.append(f"{_decimal(left_side)} {sign} {_decimal(right_side)} = {_decimal(value)}")
    return value


def _number(value: float | str) -> Fraction:
    # by way of a float, since 1e999999999 takes hours as a fraction
    return Fraction(f"{float(value):.10f}")


def _decimal(value: Fraction) -> str:
    """As it is written. Raises ValueError for one third, which no decimal is."""
    text = f"{float(value):.10g}"
    if Fraction(text) != value:
        raise ValueError(value)
    return text


def _row(problem: str | None, gold: str | None, **more: str | None) -> dict:
    return {"problem": problem, "solution": gold, "reasoning": None} | more


def _whole_number(gold: object) -> str | None:
    """The number without leading zeros (`025`) or an empty fraction (`27.0`)."""
    if gold is None:
        return None
    text = str(gold).strip()
    if re.fullmatch(r"-?\d+(\.0+)?", text):
        return str(int(float(text)))
    return text


def _math_row(row: dict) -> dict:
    from rewards.verifier import gold_answer

    solution = row["solution"]
    boxed = isinstance(solution, str) and "boxed" in solution
    return {
        "problem": row["problem"],
        "solution": gold_answer(solution) if boxed else None,
        "reasoning": solution,
        # MATH says "Level 3" and "type", MATH-500 3 and "subject".
        "level": str(row.get("level", "")).removeprefix("Level ") or None,
        "subject": row.get("subject") or row.get("type"),
    }


def _read(
    hub_id: str,
    config: str | None,
    split: str,
    folder: Path | None,
    file: str,
    columns: str,
    to_row: Callable[[dict], dict],
) -> list[dict]:
    """The rows of a set of the Hub, or of its file in a folder, which needs these `columns`.
    `to_row` makes a row of ours of one of its rows."""
    needed = tuple(columns.split())
    if folder is not None:
        path = Path(folder) / file
        if not path.is_file():
            raise DataError(
                f"{path} does not exist: data.dir (or MATH_DATA_DIR) must hold {file}, or be"
                " left out"
            )
        return list(map(to_row, read_parquet(path, needed)))
    instead = f" (data.dir or MATH_DATA_DIR can name a folder with {file})"
    rows = from_hub(hub_id, config, split, remedy=lambda reason: reason + instead)
    require_columns(hub_id, list(rows[0]) if rows else [], needed)
    return list(map(to_row, rows))


def from_hub(
    name: str,
    config: str | None,
    split: str,
    revision: str | None = None,
    remedy: Callable[[str], str] = str,
) -> list[dict]:
    """The rows of a data set of the Hub, whose commit is then in `hub.revisions`. `remedy`: the
    Hub's answer with what a user can do.

    Raises:
        DataError: the Hub has no such data set, configuration, split or revision, or does not show
            it.
    """
    import httpx
    from datasets import load_dataset
    from datasets.exceptions import DatasetGenerationError, DatasetsError

    hub.reach()
    try:
        dataset = load_dataset(name, config, split=split, revision=revision)
    except MemoryError:
        raise
    except Exception as error:  # whatever a stranger has put there
        cause = error
        if type(error) is DatasetGenerationError and error.__cause__:
            cause = error.__cause__
        words = str(cause).split("Example of usage")[0].split()
        reason = " ".join(words)[:400] or type(cause).__name__
        from_network = isinstance(error, OSError | httpx.HTTPError)
        from_hub = isinstance(error, DatasetsError) and not hub.is_offline()
        if from_network and not from_hub:
            raise DataNotReached(f"{name}: {remedy(reason)}") from error
        raise DataError(f"{name}: {remedy(reason)}") from error
    # The cache keeps the files of each commit in a folder of their own.
    commits = [Path(cached["filename"]).parent.name for cached in dataset.cache_files]
    if commits and re.fullmatch("[0-9a-f]{40}", commits[0]):
        hub.revisions[name] = commits[0]
    if revision and re.fullmatch("[0-9a-f]{40}", revision) and hub.revisions.get(name) != revision:
        raise DataNotReached(
            f"{name}: the revision {revision} was not downloaded before, and the Hub is not reached"
        )
    return dataset.to_list()


def _number_row(row: dict) -> dict:
    return _row(row.get("problem", row.get("question")), _whole_number(row["answer"]))


def _olympiad_row(row: dict) -> dict:
    # `final_answer` is a list of one text, which may hold several answers.
    return _row(row["question"], (row["final_answer"] or [None])[0], subject=row.get("subfield"))


def _asdiv_row(row: dict) -> dict:
    # "9 (apples)": the unit helps a reader, but the question does not ask for it. As in the paper,
    # problems with several answers are left out.
    gold = re.sub(r"\s*\(.*\)$", "", row["answer"])
    if ";" in row["answer"]:
        gold = None
    return _row(f"{row['body']} {row['question']}", gold, subject=row.get("solution_type"))


def _benchmark(
    file: str, hub_id: str, hub_split: str, columns: str, to_row: Callable[[dict], dict]
) -> Callable:
    """The function of a set that is never trained on, whatever the Hub calls its one split."""

    def rows(split: str = "test", folder: Path | None = None) -> list[dict]:
        if split != "test":
            raise DataError(f"{file} is a benchmark and is never trained on")
        return _read(hub_id, None, hub_split, folder, f"{file}.parquet", columns, to_row)

    return rows


BENCHMARKS = {
    # The 500 problems of MATH's test split that Lightman et al. 2023 (arXiv:2305.20050) held out.
    "math-500": _benchmark(
        "math-500", "HuggingFaceH4/MATH-500", "test", "problem solution", _math_row
    ),
    # The 30 problems of the AIME I and II of a year.
    "aime-2024": _benchmark(
        "aime-2024", "HuggingFaceH4/aime_2024", "train", "problem answer", _number_row
    ),
    "aime-2025": _benchmark("aime-2025", "math-ai/aime25", "test", "problem answer", _number_row),
    # The 40 problems of the 2023 AMC 12 whose answer is a number.
    "amc-2023": _benchmark("amc-2023", "math-ai/amc23", "test", "question answer", _number_row),
    # The 272 problems from university courses that Lewkowycz et al. 2022 (arXiv:2206.14858)
    # collected.
    "minerva": _benchmark(
        "minerva-math",
        "math-ai/minervamath",
        "test",
        "question answer",
        lambda row: _row(row["question"], row["answer"]),
    ),
    # The open, text-only, English competition problems of OlympiadBench (He et al. 2024,
    # arXiv:2402.14008).
    "olympiadbench": _benchmark(
        "olympiadbench", "math-ai/olympiadbench", "test", "question final_answer", _olympiad_row
    ),
    # ASDiv (Miao et al. 2020, arXiv:2106.15772), 2,305 problems.
    "asdiv": _benchmark(
        "asdiv", "EleutherAI/asdiv", "validation", "body question answer", _asdiv_row
    ),
}
