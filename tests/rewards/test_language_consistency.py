import pytest

from rewards import language_consistency
from rewards.language_consistency import LATIN_LANGUAGES, language_of
from tests.made_runs import chat
from tests.tables import cases, rows

REASONING = {row["language"]: row["text"] for row in rows(__file__, "reasoning")}
QUESTION = {row["language"]: row["text"] for row in rows(__file__, "question")}


def share(text: str, language: str) -> float:
    return language_consistency([text], language=[language])[0]


@pytest.mark.parametrize("written", REASONING)
def test_a_text_in_one_language(written):
    """It is wholly in that language, and in none of the others."""
    text = f"<think>{REASONING[written]}</think>\n<answer>72</answer>"
    shares = {language: share(text, language) for language in REASONING}
    assert shares.pop(written) == 1.0
    assert [language for language in shares if shares[language] > 0.05] == []


@pytest.mark.parametrize("asked", QUESTION)
def test_the_prompt_names_the_language(asked):
    other = "en" if asked != "en" else "zh"
    for prompt in (
        QUESTION[asked],
        [chat("system", "Reason step by step."), chat("user", QUESTION[asked])],
    ):
        shares = language_consistency([REASONING[asked], REASONING[other]], prompts=[prompt] * 2)
        assert shares[0] == 1.0
        assert shares[1] <= 0.05


@cases(
    __file__,
    "a_text_in_two_languages",
    (
        "So we get the answer. " * 200 + "我们先求出总数然后除以二，得到最后的答案是六。",
        "en",
        0.0,
        0.4,
    ),
)
def test_a_text_in_two_languages(text, language, least, most):
    assert least <= share(text, language) <= most


@cases(__file__, "what_does_not_count", ("minutes + minutes = minutes, " * 20, "en"))
def test_what_does_not_count(text, language):
    assert share(text, language) == 1.0


def test_what_the_prompt_quotes_does_not_count():
    text = "我们每天读 twelve 页 book，一共读 pages，最后得到 answer。"
    quoted = "一本 book 有多少 pages？twelve 页。answer 是什么？"
    assert language_consistency([text], prompts=[quoted]) == [1.0]
    assert language_consistency([text], prompts=["一本书有多少页？"])[0] < 0.8
    # A prompt in the language to keep away from excuses nothing.
    english = "How many pages are in the book? Answer twelve."
    assert language_consistency([text], prompts=[english], language=["zh"])[0] < 0.8


def test_a_row_language_wins_over_the_prompt():
    prompts, text = ["How many apples are there in the basket?"] * 2, REASONING["fr"]
    assert language_consistency([text] * 2, prompts=prompts, language=["fr", None]) == [1.0, 0.0]


def test_a_prompt_of_bare_maths():
    text = REASONING["en"]
    assert language_consistency([text], prompts=["12 + 34 ="]) == [None]
    assert language_consistency([text]) == [None]
    system = chat("system", "Think step by step, and then give the answer.")
    assert language_consistency([text], prompts=[[system, chat("user", "12 + 34 =")]]) == [1.0]
    assert language_consistency([text], prompts=["Evaluate $12 + 34$."]) == [1.0]


def test_the_last_question_counts():
    prompt = [chat("user", QUESTION["zh"]), chat("assistant", "七十二")]
    texts, prompts = [REASONING["de"], REASONING["zh"]], [[*prompt, chat("user", QUESTION["de"])]]
    assert language_consistency(texts, prompts=prompts * 2) == [1.0, 0.0]


@cases(__file__, "a_language_without_a_list_is_found_and_told_from_the_others")
def test_a_language_without_a_list_is_found_and_told_from_the_others(language, text):
    assert language_of(text) == language
    others = sorted(LATIN_LANGUAGES - {language})
    shares = language_consistency([text] * (1 + len(others)), language=[language, *others])
    assert shares[0] == 1.0
    assert max(shares[1:]) <= 0.05


def test_an_unknown_language_is_an_error():
    with pytest.raises(ValueError, match="'english' is not one of"):
        share("whatever", "english")


def test_equal_shares_have_an_exact_mean():
    """A share of 1/3 would give a zero-variance group a standard deviation of 1e-8 in float32."""
    got = share("We have ten of them. 我们先求出总数然后除以二，得到最后的答案是六。", "en")
    assert 0.0 < got < 1.0
    assert (got * 256).is_integer()
