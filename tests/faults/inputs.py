"""Problems that cannot be read, and a Hub that does not answer."""

import shutil
from collections.abc import Callable

from tests.faults.arena import Arena
from tests.faults.outcome import Fault, Outcome, Required
from tests.support import ROOT, hub, write_lines

ELSEWHERE = ["model.build=null", "model.name_or_path=a/model", "sft=null"]


def trained_on(arena: Arena, rows: list[dict]) -> Outcome:
    file = arena.folder / "mine.jsonl"
    write_lines(file, rows)
    return arena.run(f"data.train=[{file}]", "sft=null")


def poisoned_rows(arena: Arena) -> Outcome:
    rows = [
        {"problem": f"What is {a} + {b}?", "answer": a + b}
        for a in range(10, 30)
        for b in range(10, 20)
    ]
    rows[3]["problem"], rows[4]["problem"], rows[5]["answer"] = None, "", None
    return trained_on(arena, rows)


def wrong_columns(arena: Arena) -> Outcome:
    return trained_on(arena, [{"question": "What is 1 + 1?", "gold": 2}])


def hub_fails(status: int) -> Callable[[Arena], Outcome]:
    def inject(arena: Arena) -> Outcome:
        with hub(arena.folder, status) as (environment, asked):
            ended = arena.run(*ELSEWHERE, **environment)
        return ended._replace(
            noted={"requests": len(asked), "a stack trace": "Traceback" in ended.said}
        )

    return inject


def hub_hangs(arena: Arena) -> Outcome:
    """The model was downloaded before."""
    cache = arena.folder / "hub/models--a--model"
    shutil.copytree(ROOT / "outputs/models/tiny-qwen3-seed42", cache / "snapshots" / ("0" * 40))
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0" * 40)
    with hub(arena.folder, None) as (environment, _):
        ended = arena.run(*ELSEWHERE, **environment)
    return arena.compared(ended, "sft=null")


NO_ANSWER = Required(2, ("model a/model: ",), "", {"requests": 3, "a stack trace": False})
FAULTS = [
    Fault(
        "rows without a problem or an answer",
        poisoned_rows,
        Required(says=("3 dropped", "4, 5"), weights=""),
    ),
    Fault("wrong column names", wrong_columns, Required(2, ("mine.jsonl",), weights="")),
    Fault("Hub answers 503", hub_fails(503), NO_ANSWER),
    Fault("Hub answers 429", hub_fails(429), NO_ANSWER),
    Fault("Hub never answers, the model in its cache", hub_hangs, Required()),
]
