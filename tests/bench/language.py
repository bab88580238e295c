"""What language_consistency costs: completions of 300 words a second on one core, every sentence different.

python -m tests.bench.language [--n 2000]
"""

import argparse
import random
import time

from rewards import language_consistency

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2000)
    n = parser.parse_args().n
    start = time.perf_counter()
    language_consistency(["eight words that no list of ours knows: mango papaya guava lychee"], language=["pl"])
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
