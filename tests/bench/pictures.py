"""Makes what the docs show of the page and the lab: docs/finished-run.html, pictures of it and of
the lab in docs/img, and docs/img/grpo.svg, which moves. Look at them before you commit them.

`python -m tests.bench.pictures`: of the run that docs/finished-run.html holds.
`python -m tests.bench.pictures outputs/x`: of this finished run, which it holds from then on.
`python -m tests.bench.pictures --lab FOLDER`: every part of the lab, in both schemes, as wide as a
desk's and a phone's screen.
"""

import argparse
import json
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from runs.records import find_runs
from tests.bench.moving import Scene, drawn
from tests.viewer.browser import CHROMIUM, FLAGS, data_of, page_of
from viewer import page

FOLDER = Path("docs/img")
FINISHED = Path("docs/finished-run.html")
LAB = Path("docs/lab/index.html")
SHOWN = "shown"  # in a picture's file: the words of the page that it shows
WORDS = "h1, h2, h3, b, button, label, legend, summary, th, dt, option, p, .choice span"
# In the view of the window: what is written in an element itself, by lines.
IN_VIEW = """(selector) => [...document.querySelectorAll(selector)].filter((e) => {
  const { top, bottom } = e.getBoundingClientRect();
  return e.getClientRects().length && top < innerHeight && bottom > 0;
}).map((e) => e.textContent.trim())"""


def views_of(answers: dict[str, Any]) -> dict[str, tuple[str, str, int]]:
    """(address, what is waited for, height) of each picture of a run's page."""
    groups = answers["0/groups"]["groups"]
    mixed = [entry for entry in groups if 0 < (entry["correct"] or 0) < entry["n"]]
    group = mixed[len(mixed) // 2]
    return {
        "overview": ("overview", ".chart canvas", 1180),
        "groups": (f"groups/0/{group['step']}/{group['group']}", "[data-advantage]", 640),
        "changed": ("changed/0", ".pair", 520),
    }


@cache
def sources(folder: Path) -> str:
    """All that the page, or the lab, may write of its own."""
    files = [*folder.glob("*.js"), *folder.glob("*.html")]
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(files))


def own_words(texts: list[str], folder: Path) -> list[str]:
    """Those of the texts that stand in the page's own files: what comes before a number or a
    colon, and is more than a word of code."""
    written = sources(folder)
    words = {re.match(r"[^\d:]*", text)[0].strip() for text in texts}
    return sorted(text for text in words if len(text) > 3 and text in written)


def take(tab, file: Path, folder: Path):
    """A picture of a tab, with the words of the page that are in its view."""
    from PIL import Image, PngImagePlugin

    tab.screenshot(path=file)
    words = own_words(tab.evaluate(IN_VIEW, WORDS), folder)
    facts = PngImagePlugin.PngInfo()
    facts.add_text(SHOWN, json.dumps(words, ensure_ascii=True))
    with Image.open(file) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(file, pnginfo=facts, optimize=True)


def finished_run(run: str | None) -> dict[str, Any]:
    """Write docs/finished-run.html, of a run or again of what it holds; the answers in it."""
    if run is None:
        answers = data_of(FINISHED.read_text(encoding="utf-8"))
        texts = {question: page.json_text(answer) for question, answer in answers.items()}
        FINISHED.write_text(page.rendered(texts), encoding="utf-8")
    else:
        FINISHED.write_text(page_of(find_runs([run])), encoding="utf-8")
    return data_of(FINISHED.read_text(encoding="utf-8"))


def scene_of(answers: dict[str, Any]) -> Scene:
    """What the moving picture shows of a run."""
    [result, *_] = answers["0/results"]
    curves = answers["0/curves"]
    # Accuracies on other problems are no start of the curve of the validation problems.
    key = "eval_rewards/correct_answer/mean"
    curve = "Correct on validation problems"
    if key not in curves or result["benchmark"] != "validation":
        key = "rewards/correct_answer/mean"
        curve = "Correct in training, sampled"
    shares = zip(curves["step"], curves[key], strict=True)
    before, after = result["flips"]["before"], result["flips"]["after"]
    accuracies = {model["label"]: model["accuracy"] for model in result["models"]}
    points = [(step, share) for step, share in shares if share is not None]
    if key.startswith("eval"):
        points.insert(0, (0, accuracies[before]))
    [run] = answers["runs"]
    step = run["steps"]
    if run["result"]:
        step = int(run["result"].rpartition("-")[2])  # of the checkpoint that was chosen
    names = {before: f"before GRPO ({before})", after: f"after {step} steps"}
    completions = []
    for answer in result["story"]["answers"]:
        completions.append((names[answer["label"]], answer["text"], str(answer["answer"])))
    return Scene(
        command=f"make grpo RECIPE={run['name']}",
        curve=curve,
        points=points,
        question=result["story"]["question"],
        completions=completions,
        headline=result["headline"]["gain"],
        luck=result["headline"]["luck"],
        accuracies=[(label, accuracies[label]) for label in (before, after)],
    )


def of_page(browser, answers: dict[str, Any]):
    """The pictures of the finished run's page, and of the lab's first view."""
    size = {"width": 1280, "height": 900}
    for name, (address, selector, height) in views_of(answers).items():
        tab = browser.new_page(viewport=size | {"height": height}, color_scheme="light")
        tab.goto(f"{FINISHED.absolute().as_uri()}#{address}")
        tab.wait_for_selector(selector)
        tab.wait_for_timeout(1000)
        take(tab, FOLDER / f"{name}.png", page.FOLDER)
        tab.close()


def of_lab(browser):
    """The picture of the lab's first view."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    tab.goto(LAB.absolute().as_uri())
    tab.wait_for_timeout(1000)
    take(tab, FOLDER / "lab.png", LAB.parent)
    tab.close()


def parts_of_lab(browser, folder: Path):
    """Each part as it opens, and after its guess was skipped."""
    for scheme, width in product(("light", "dark"), (1440, 390)):
        size = {"width": width, "height": 900}
        still = {"color_scheme": scheme, "reduced_motion": "reduce"}
        tab = browser.new_page(viewport=size, **still)
        tab.goto(LAB.absolute().as_uri())
        tab.wait_for_timeout(1000)
        tab.screenshot(path=folder / f"first-{width}-{scheme}.png")
        for section in tab.locator("section:has(.guess)").all():
            name = section.get_attribute("id").removeprefix("part-")
            section.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
            section.get_by_role("button", name="Skip").click()
            section.screenshot(path=folder / f"{name}-{width}-{scheme}-played.png")
        tab.close()


def main(run: str | None, lab: Path | None):
    # An extra, which `--help` does without: make setup EXTRAS=browser
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        if lab:
            parts_of_lab(browser, lab)
        else:
            answers = finished_run(run)
            (FOLDER / "grpo.svg").write_text(drawn(scene_of(answers)), encoding="utf-8")
            of_page(browser, answers)
            of_lab(browser)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pictures", description=__doc__)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--lab", type=Path)
    main(**vars(parser.parse_args()))
