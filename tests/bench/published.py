r"""The verifier on the tables of cases that other graders publish: `python -m tests.bench.published
FOLDER`.

FOLDER holds clones of huggingface/Math-Verify, huggingface/latex2sympy2_extended, hendrycks/math,
openai/prm800k, QwenLM/Qwen2.5-Math and EleutherAI/lm-evaluation-harness, whose test files are
executed. Each case that we judge otherwise than its table says is printed with its class (a: we
refuse a right answer, b: we pay a wrong one, c: another convention, d: no answer of mathematics, ?:
not looked at) and our reason, from published.tsv, beside its hash.
"""

import argparse
import ast
import csv
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple
from unittest import mock

import sympy
import yaml

from rewards.verifier import judge_all

# What the comments in these graders say of a gold and an answer; with a last False, that they are
# not the same.
MINERVA = [
    *(
        ("apple", "an apple"),
        ("pear", "a pear"),
        ("$12$", "$12.$"),
        ("12", r"\$12"),
        ("12", r"12\ "),
        ("x+1", "x + 1"),
    ),
    *(
        (r"12\text{ cm}", r"12\mbox{ cm}"),
        ("1,2", r"1,\text{and}2"),
        ("12", r"1\text{and}2"),
        ("12", r"12\text{m}"),
    ),
    *(
        (r"\frac{1}{2}", r"\frac12"),
        (r"\frac{1}{2}x", r"\frac12x"),
        (r"\sqrt{2}", r"\sqrt2"),
        ("100000", "100,000"),
    ),
    *(
        (r"\sqrt{2}x", r"\sqrt2x"),
        ("5", "x=5"),
        ("0.3", r"0.\overline{3}"),
        ("5", r"\textbf{5}"),
        ("5", r"\boxed{5}"),
    ),
]
PRM800K = [
    *(
        (r"\text{East}", "east"),
        ("20", r"20\%"),
        ("20", r"\$20"),
        ("1, 2", "1 and 2"),
        ("1, 2", "1 or 2"),
    ),
    *(
        ("5000000", "5 million"),
        ("30", r"30^\circ"),
        ("12345", r"12,\!345"),
        ("5", "5.0"),
        ("31/4", "7 3/4"),
    ),
    *(
        ("1/2", "2/4", False),
        ("4", "8/2", False),
        ("(1,2)", "[1,2]", False),
        ("(1,2)", "(2,1)", False),
    ),
]


class Case(NamedTuple):
    table: str
    gold: str
    response: str
    right: bool  # as its table says
    question: str | None = None


def math_verify(folder: Path) -> Iterator[Case]:
    """The rows (gold, pred, expected or result) that the tests of Math-Verify are given."""
    for path in sorted((folder / "Math-Verify/tests").glob("test_*.py")):
        for row in (
            row for _, rows in _run(path, {"tests.test_all": mock.MagicMock()})[1] for row in rows
        ):
            if {"gold", "pred"} <= row.keys():
                yield Case(
                    "Math-Verify",
                    row["gold"],
                    row["pred"],
                    bool(row.get("expected", row.get("result"))),
                )


def latex2sympy(folder: Path) -> Iterator[Case]:
    """Each LaTeX text in its tests equals the expression beside it, as sympy prints that, and not
    that and one."""
    found, context, tests = [], ModuleType("tests.context"), folder / "latex2sympy2_extended/tests"
    exec((tests / "context.py").read_text(), vars(context))
    context.assert_equal = lambda latex, expression, **_: found.append((latex, expression))
    for path in sorted(tests.glob("*_test.py")):
        names, tables = _run(path, {"tests.context": context})
        for test in [
            t
            for name, t in names.items()
            if name.startswith("test_") and path.stem != "symbols_test"
        ]:
            for row in dict(tables).get(test, [{}]):
                with suppress(TypeError, ValueError, AssertionError):  # a row that is to raise
                    test(**row)
        found += [
            pair
            for each in names.values()
            if isinstance(each, type)
            for pair in getattr(each, "GOOD_PAIRS", [])
        ]
    for latex, expression in dict.fromkeys(
        (latex, sympy.sympify(expression)) for latex, expression in found
    ):
        number = isinstance(expression, sympy.Expr) and expression.is_commutative
        for each, right in [(expression, True), (expression + 1 if number else expression, False)]:
            printed = sympy.latex(each, ln_notation=True, inv_trig_style="full")
            printed = re.sub(r"(?<![a-zA-Z\\])(bar|alpha|lambda)(?![a-z])", r"\\\1", printed)
            if right or each != expression:
                yield Case("latex2sympy2", latex, f"<answer>{printed}</answer>", right)


def _run(path: Path, stubs: dict[str, object]) -> tuple[dict, list[tuple]]:
    """The names that a test file defines, and (test, rows) of each test that is given rows."""
    tables = []

    def parametrize(names: str, rows: list):
        named = [
            dict(zip(re.split(r"\s*,\s*", names), r if "," in names else (r,), strict=True))
            for r in rows
        ]
        return lambda test: tables.append((test, named)) or test

    pytest = SimpleNamespace(
        mark=SimpleNamespace(parametrize=parametrize), raises=mock.Mock(side_effect=ValueError)
    )
    names: dict = {"__name__": path.stem}
    with mock.patch.dict(sys.modules, {"pytest": pytest, **stubs}):
        exec(compile(path.read_text(), str(path), "exec"), names)
    return names, tables


def others(folder: Path) -> Iterator[Case]:
    """Hendrycks' unit tests, the units and comments of prm800k and Minerva, judged answers of Qwen,
    solved examples."""
    for test in ast.walk(
        ast.parse((folder / "math/modeling/math_equivalence_test.py").read_text())
    ):
        if isinstance(test, ast.FunctionDef):
            given, wanted = (ast.literal_eval(line.value) for line in test.body[:2])
            yield Case("hendrycks", wanted, given, test.body[2].value.func.attr == "assertTrue")
    units = re.search(
        r"for unit in (\[.*?\])",
        (folder / "prm800k/prm800k/grading/grader.py").read_text(),
        re.DOTALL,
    )
    yield from _pairs(
        "prm800k", [*(("12", f"12 {unit}s") for unit in ast.literal_eval(units[1])), *PRM800K]
    )
    for line in (
        folder / "Qwen2.5-Math/evaluation/data/eval_rm_maj_example/math_cot_100.jsonl"
    ).open(encoding="utf-8"):
        row = json.loads(line)
        for response, right in zip(row["code"], row["score"], strict=True):
            yield Case("Qwen2.5-Math", row["answer"], response, right, row["question"])
    minerva = ast.parse(
        (folder / "lm-evaluation-harness/lm_eval/tasks/minerva_math/utils.py").read_text()
    )
    removed = next(
        n
        for n in minerva.body
        if isinstance(n, ast.Assign) and n.targets[0].id == "REMOVED_EXPRESSIONS"
    )
    for text in ast.literal_eval(removed.value):
        pair = ("12345", f"12{text}345") if text in (r",\!", "{,}") else ("12", f"12{text}")
        yield from _pairs("Minerva", [("12", rf"12\text{{ {text}}}") if text.isalpha() else pair])
    yield from _pairs("Minerva", MINERVA)
    for node in ast.walk(minerva):
        if isinstance(node, ast.Dict) and any(
            getattr(key, "value", "") == "few_shot" for key in node.keys
        ):
            yield Case("Minerva", *[ast.literal_eval(node)["solution"]] * 2, True)
    yield from _pairs(
        "lm-eval GSM8K",
        [("1234", "1,234"), ("12", "$12"), ("12", "It is.\n#### 12"), ("12", "12.")],
    )
    for name in ("gsm8k-cot", "gsm8k-cot-llama"):
        task = yaml.safe_load(
            (folder / f"lm-evaluation-harness/lm_eval/tasks/gsm8k/{name}.yaml").read_text()
        )
        for row in task["fewshot_config"]["samples"]:
            gold = re.findall(r"answer is \$?([\d,.]*\d)", row["target"])[-1]
            yield Case("lm-eval GSM8K", gold, row["target"], True, row["question"])


def _pairs(table: str, pairs: list[tuple]) -> Iterator[Case]:
    """The pairs, and each answer against another gold."""
    for gold, answer, *right in pairs:
        yield Case(table, gold, f"<answer>{answer}</answer>", not right)
        yield Case(table, "13", f"<answer>{answer}</answer>", False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.published", description=__doc__)
    folder = parser.add_argument("folder", type=Path) and parser.parse_args().folder
    cases = [case for table in (math_verify, latex2sympy, others) for case in table(folder)]
    verdicts = judge_all(
        [c.response for c in cases],
        [c.gold for c in cases],
        [c.question for c in cases],
        timeout=20,
    )
    rows = csv.DictReader(Path(__file__).with_suffix(".tsv").open(encoding="utf-8"), delimiter="\t")
    looked_at = {
        case: (row["class"], row["reason"]) for row in rows for case in row["cases"].split()
    }
    counts: Counter = Counter(case.table for case in cases)
    for case, verdict in zip(cases, verdicts, strict=True):
        if case.right != (verdict.right is True):
            name = hashlib.sha256(
                repr((case.gold, case.response, case.right)).encode()
            ).hexdigest()[:8]
            kind, reason = looked_at.get(name, ("?", verdict.reason))
            counts[case.table, kind] += 1
            print(
                kind,
                name,
                case.table,
                case.right,
                repr(case.gold[-60:]),
                repr(case.response[-60:]),
                reason,
                sep="  ",
            )
    for table in [key for key in counts if isinstance(key, str)]:
        found = {kind: counts[table, kind] for kind in "abcd?" if counts[table, kind]}
        print(
            f"{table}: {counts[table] - sum(found.values())} of {counts[table]} agree; others"
            f" {found or 'none'}"
        )


if __name__ == "__main__":
    main()
