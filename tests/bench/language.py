# ruff: noqa: RUF001 - letters that look like Latin ones are what this is about
"""What language_consistency costs: completions of 300 words a second on one core, all distinct, in prose and terse.

python -m tests.bench.language [--n 2000]
"""

import argparse
import random
import time

from rewards import language_consistency

PROSE = {
    "en": "First we compute the total number of {} that {} has in the basket, which is ${} \\times {} = {}$.",
    "en, terse": "{} sold {} clips * {} days = <<{}*{}>> clips.",
    "en, half zh": "First we find the number of {} that {} has, 然后我们把它除以 {} 得到 {} 个，所以答案是 {}。",
    "es": "Primero calculamos el número total de {} que tiene {} en la cesta, es decir, ${} \\times {} = {}$.",
    "sw": "Kwanza tunahesabu idadi ya jumla ya {} ambazo {} anazo kwenye kikapu, yaani ${} \\times {} = {}$.",
    "zh": "首先我们计算{}的总数，{}的篮子里一共有这么多，也就是 ${} \\times {} = {}$。",
    "ru": "Сначала мы вычислим общее количество {} в корзине, которую принёс {}, то есть ${} \\times {} = {}$.",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def completion(template: str, rng: random.Random, words: int = 300) -> str:
    """`words` words (whitespace-separated, or two letters where nothing is spaced) with made-up nouns and numbers."""
    text, count = [], 0
    while count < words:
        noun, name = ("".join(rng.choices(LETTERS, k=7)) for _ in range(2))
        text.append(template.format(noun, name.title(), *(rng.randrange(2, 999) for _ in range(3))))
        count += max(len(text[-1].split()), sum(char > "\u3000" for char in text[-1]) // 2)
    return "<think>" + " ".join(text) + "</think><answer>7</answer>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2000)
    n = parser.parse_args().n
    start = time.perf_counter()
    language_consistency(["qwe rty asd fgh zxc vbn uio jkl"], language=["en"])
    print(f"loading the detector: {time.perf_counter() - start:.2f} s")
    for name, template in PROSE.items():
        rng = random.Random(0)
        texts = [completion(template, rng) for _ in range(n)]
        start = time.process_time()
        shares = language_consistency(texts, language=[name[:2]] * n)
        seconds = time.process_time() - start
        print(f"{name:12} {n / seconds:7.0f} completions/s   mean share {sum(shares) / n:.2f}")


if __name__ == "__main__":
    main()
