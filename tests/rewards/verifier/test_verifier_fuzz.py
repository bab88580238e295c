"""Whatever is written, a verdict comes back, and equality does not depend on which side is the
gold."""

import hypothesis

from rewards.verifier import judge
from rewards.verifier.notation import key, plain
from rewards.verifier.numerals import number
from rewards.verifier.value import value

st = hypothesis.strategies
bounded = hypothesis.settings(derandomize=True, deadline=None, max_examples=150)

PIECES = r"""
0 1 2 9 10 1,000 0.5 .5 1/2 x y i e \pi \frac{1}{2} \frac12 \frac \sqrt{2} \sqrt \boxed{ \boxed{5} {
} ( ) [ ] \{ \} \left( \right) ^ _ ^2 _2 ^{ + - * / = < > \le \ne \in \cup \pm , ; : . ... ! % \% $
\$ | & \\ \text{ \text{cm} cm and or not \infty ° \begin{pmatrix} \end{pmatrix} \overline{3} \log
\sin p.m. A (B) yes no ½ √ π ² ₂ − × ٣ ５ \ <think> </think> <answer> </answer> answer is ####
"""
PIECES = [*PIECES.split(), "\n", " "]
completions = st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=60)
wrapped = st.builds(
    lambda frame, text: frame.replace("?", text),
    st.sampled_from(["?", r"\boxed{?}", "<think>?</think><answer>?</answer>"]),
    completions,
)
numbers = st.fractions(min_value=-1000, max_value=1000, max_denominator=50)


@bounded
@hypothesis.given(completion=wrapped, gold=completions)
def test_no_exception_escapes_and_no_other_verdict(completion, gold):
    verdict = judge(completion, gold)
    assert verdict.correct in (True, False, None)
    assert isinstance(verdict.reason, str)


@bounded
@hypothesis.given(text=st.text(max_size=200) | completions)
def test_reading_never_raises(text):
    value(text)
    number(plain(text))


@bounded
@hypothesis.given(text=completions)
def test_the_gold_echoed_is_correct(text):
    hypothesis.assume(not set(text) & set("{}\\<>#") and key(text))
    assert judge(rf"<answer>\boxed{{{text}}}</answer>", text).correct is True


@bounded
@hypothesis.given(a=numbers, b=numbers)
def test_fractions_are_equal_only_to_themselves(a, b):
    def spellings(n):
        yield f"{n.numerator}/{n.denominator}"
        yield rf"\frac{{{n.numerator * 3}}}{{{n.denominator * 3}}}"
        yield rf"{'-' if n < 0 else ''}\dfrac{{{abs(n.numerator)}}}{{{n.denominator}}}"

    for x in spellings(a):
        for y in spellings(b):
            assert judge(rf"\boxed{{{x}}}", y).correct is (a == b)


TERMS = [r"\sqrt{2}", "x", "y^2", r"\pi", "3", r"\frac{1}{2}", "2x", "-x", r"\sqrt{3}"]


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(
    a=st.lists(st.sampled_from(TERMS), min_size=1, max_size=3, unique=True),
    order=st.randoms(use_true_random=False),
)
def test_reordered_terms_are_equal_both_ways(a, order):
    b = list(a)
    order.shuffle(b)
    one, other = ("+".join(f"({t})" if t[0] == "-" else t for t in terms) for terms in (a, b))
    assert judge(rf"\boxed{{{one}}}", other).correct == judge(rf"\boxed{{{other}}}", one).correct


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(a=st.sampled_from(TERMS), b=st.sampled_from(TERMS), c=st.sampled_from(TERMS))
def test_equality_of_expressions_is_symmetric(a, b, c):
    one, other = rf"{a} \cdot {b}", rf"{b} \cdot {c}"
    assert judge(rf"\boxed{{{one}}}", other).correct == judge(rf"\boxed{{{other}}}", one).correct
