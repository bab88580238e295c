"""One function per data set, from the Hub or from a folder of parquet files with the Hub's column names.

Every function returns rows `{"problem", "solution", "reasoning"}`: the question, the gold answer, and (where the data
has one) a worked solution without its final line, which is what the SFT warm start learns to write inside
`<think> </think>`. A row whose problem or gold is missing comes back with None there, and is dropped and counted by
`data.problems.load`.
"""

import re
from pathlib import Path

from data.gold import gold_answer


class DataError(ValueError):
    """A mistake in the data or in how the recipe names it; the message says which, where and what to do."""


def gsm8k(split: str, folder: Path | None = None) -> list[dict]:
    """GSM8K (Cobbe et al. 2021, arXiv:2110.14168), 7,473 train and 1,319 test problems. A raw row:

    `{"question": "Natalia sold clips to 48 of her friends …", "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips in
    May.\\nNatalia sold 48+24 = <<48+24=72>>72 clips altogether in April and May.\\n#### 72"}`
    """
    rows = _read("openai/gsm8k", "main", split, folder, f"gsm8k-{split}.parquet", ("question", "answer"))
    return [_gsm8k_row(row["question"], row["answer"]) for row in rows]


def _gsm8k_row(question: str | None, answer: str | None) -> dict:
    gold = gold_answer(answer)
    if gold is None or not re.fullmatch(r"-?\d+(\.\d+)?", gold):
        return {"problem": question, "solution": None, "reasoning": None}
    # Calculator marks <<48/2=24>> were made for a tool that no policy here has.
    reasoning = re.sub(r"<<.*?>>", "", answer.split("####")[0]).strip()
    return {"problem": question, "solution": gold, "reasoning": reasoning}


def math(split: str, folder: Path | None = None) -> list[dict]:
    """MATH (Hendrycks et al. 2021, arXiv:2103.03874), 7,500 train and 5,000 test problems. A raw row:

    `{"problem": "What is $2^3$?", "level": "Level 1", "type": "Algebra", "solution": "We have $2^3 = \\boxed{8}$."}`
    """
    name = "DigitalLearningGmbH/MATH-lighteval"
    rows = _read(name, None, split, folder, f"math-{split}.parquet", ("problem", "solution"))
    return [_math_row(row) for row in rows]


def math_500(split: str = "test", folder: Path | None = None) -> list[dict]:
    """The 500 problems of MATH's test split that Lightman et al. 2023 (arXiv:2305.20050) held out; test only.

    A raw row is one of `math` with `subject`, `answer` (the content of the last box) and an integer `level`.
    """
    if split != "test":
        raise DataError("math-500 is a part of MATH's test split and is never trained on: use `math`")
    rows = _read("HuggingFaceH4/MATH-500", None, "test", folder, "math-500.parquet", ("problem", "solution"))
    return [_math_row(row) for row in rows]


def _math_row(row: dict) -> dict:
    solution = row["solution"]
    boxed = isinstance(solution, str) and "boxed" in solution
    return {"problem": row["problem"], "solution": gold_answer(solution) if boxed else None, "reasoning": solution}


def _read(hub_id: str, config: str | None, split: str, folder: Path | None, file: str, columns: tuple) -> list[dict]:
    from datasets import load_dataset
    from datasets.exceptions import DatasetNotFoundError

    if folder is None:
        try:
            dataset = load_dataset(hub_id, config, split=split)
        except (DatasetNotFoundError, OSError) as error:  # the Hub cannot be reached, or no longer has it
            reason = str(error).splitlines()[0]
            raise DataError(f"{hub_id}: {reason} (data.dir or MATH_DATA_DIR can name a folder with {file})") from error
    else:
        path = Path(folder) / file
        if not path.is_file():
            raise DataError(f"{path} does not exist: data.dir (or MATH_DATA_DIR) must hold {file}, or be left out")
        dataset = load_dataset("parquet", data_files=str(path), split="train")
    if missing := [column for column in columns if column not in dataset.column_names]:
        raise DataError(
            f"{hub_id if folder is None else path} has the columns {', '.join(dataset.column_names)}, "
            f"but {', '.join(missing)} is needed"
        )
    return dataset.to_list()
