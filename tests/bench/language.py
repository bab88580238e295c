"""What language_consistency costs: completions of 300 words a second on one core, every sentence different; or, with
--texts, what it gets wrong. --detector puts another in py3langid's place, which has to be installed.

python -m tests.bench.language [--n 2000] [--texts FILE] [--detector lingua]
"""

import argparse
import random
import resource
import time
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path

from rewards import language, language_consistency
from tests.bench.detectors import DETECTORS

# What is in braces is filled in anew in every sentence, so no cache helps. Swahili stands for the Latin-script
# languages without a list of function words, where the detector is asked about every sentence.
PROSE = {
    "en": "First we compute how many {noun} {name} has in the basket, which is ${a} \\times {b} = {c}$.",
    "en, terse": "{name} sold {a} {noun} * {b} days = <<{a}*{b}={c}>>{c} {noun}.",
    "en, half zh": "First we find how many {noun} {name} has, 然后我们把它除以 {a} 得到 {b} 个，所以答案是 {c}。",
    "de": "Zuerst berechnen wir, wie viele Äpfel {name} im Korb hat, das sind ${a} \\times {b} = {c}$.",
    "sw (no list)": "Kwanza tunahesabu idadi ya {word} ambayo {name} anayo kwenye kikapu, ${a} \\times {b} = {c}$.",
    "zh": "首先我们计算篮子里的苹果总数，{name} 一共有这么多，也就是 ${a} \\times {b} = {c}$。",
    "ru": "Сначала мы вычислим, сколько яблок {name} положил в корзину, то есть ${a} \\times {b} = {c}$.",
}
NOUNS = (
    "apples oranges clips pencils books dollars miles gallons shirts stickers marbles flowers cookies bottles chickens"
)


def completion(template: str, rng: random.Random, words: int = 300) -> str:
    """At least `words` words, counted by their spaces, or two letters a word where there are none."""
    text, count = [], 0
    while count < words:
        name = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7))
        a, b, c = (rng.randrange(2, 999) for _ in range(3))
        text.append(template.format(noun=rng.choice(NOUNS.split()), name=name.title(), word=name, a=a, b=b, c=c))
        count += len(text[-1].split()) + sum(char > "\u3000" for char in text[-1]) // 2
    return "<think>" + " ".join(text) + "</think><answer>7</answer>"


def paragraphs(file: Path, most: int) -> dict[str, list[str]]:
    """So many texts of at least thirty words a language, from lines such as `en<tab>One sentence or more.`"""
    texts: dict[str, list[str]] = defaultdict(lambda: [""])
    for line in file.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        name, text = line.split("\t", 1)
        own = texts["nb" if name == "no" else name]
        own[-1] += f" {text}"
        own += [""] if len(own[-1].split()) >= 30 else []
    return {name: own[:-1][:most] for name, own in sorted(texts.items()) if name in language.LATIN_LANGUAGES}


def mistakes(texts: dict[str, list[str]]):
    """Texts that are paid less than 0.9 for their own language, and pairs of a text and another language of the file
    that is paid over half."""
    total = [0, 0, 0, 0]
    for name, own in texts.items():
        pay = (language_consistency([text] * len(texts), language=[*texts]) for text in own)
        shares = [dict(zip(texts, each, strict=True)) for each in pay]
        refused = sum(share[name] < 0.9 for share in shares)
        taken = sum(share[other] > 0.5 for share in shares for other in texts if other != name)
        counts = len(own), refused, len(own) * (len(texts) - 1), taken
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print("{:5} {} texts, {} refused; {} pairs with another language, {} taken".format(name, *counts))
    print("all   {} texts, {} refused; {} pairs with another language, {} taken".format(*total))


def speed(n: int):
    for name, template in PROSE.items():
        rng = random.Random(0)
        texts = [completion(template, rng) for _ in range(n)]
        start = time.process_time()
        shares = language_consistency(texts, language=[name[:2]] * n)
        seconds = time.process_time() - start
        print(f"{name:12} {n / seconds:7.0f} completions/s   mean share {sum(shares) / n:.2f}")


def resident() -> float:
    """MB"""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def put_in_place(name: str):
    load, language._DOUBT = DETECTORS[name]
    load = cache(load)
    language._confidences = lru_cache(maxsize=4096)(lambda text: load()(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2000, help="completions, or texts a language")
    parser.add_argument("--texts", type=Path, help="a language's code, a tab and a text a line")
    parser.add_argument("--detector", choices=DETECTORS, help="in place of py3langid")
    options = parser.parse_args()
    if options.detector:
        put_in_place(options.detector)
    start, before = time.perf_counter(), resident()
    language_consistency(["eight words that no list of ours knows: mango papaya guava lychee"], language=["pl"])
    print(f"loading the detector: {time.perf_counter() - start:.2f} s, {resident() - before:.0f} MB")
    if options.texts:
        mistakes(paragraphs(options.texts, options.n))
    else:
        speed(options.n)


if __name__ == "__main__":
    main()
