import pytest

from rewards import language_consistency
from rewards.language_consistency import LATIN_LANGUAGES, language_of
from tests.support import far_below_quadratic

# The same reasoning in ten languages and some more.
from tests.tables import cases

REASONING = {
    "en": (
        """First we find out how many clips Natalia sold in May: she sold half as many as in April, so $48 / 2 = 24$.
        Then we add both months together. Altogether she sold 72 clips."""
    ),
    "zh": (
        """首先，我们求出娜塔莉亚五月卖了多少个发夹：她卖的数量是四月的一半，所以是 $48 / 2 = 24$ 个。
        然后把两个月的数量加起来。她一共卖了72个发夹。"""
    ),
    "es": (
        """Primero averiguamos cuántos broches vendió Natalia en mayo: vendió la mitad que en abril, es decir,
        $48 / 2 = 24$. Luego sumamos los dos meses. En total vendió 72 broches para el cabello."""
    ),
    "fr": (
        """D'abord, nous cherchons combien de barrettes Natalia a vendues en mai : elle en a vendu la moitié d'avril,
        donc $48 / 2 = 24$. Ensuite, on additionne les deux mois. Au total, elle a vendu 72 barrettes."""
    ),
    "de": (
        """Zuerst bestimmen wir, wie viele Spangen Natalia im Mai verkauft hat: Es waren halb so viele wie im April,
        also $48 / 2 = 24$. Dann addieren wir die beiden Monate. Insgesamt hat sie 72 Spangen verkauft."""
    ),
    "ru": (
        """Сначала найдём, сколько заколок Наталья продала в мае: вдвое меньше, чем в апреле, то есть $48 / 2 = 24$.
        Затем сложим оба месяца. Всего она продала 72 заколки."""
    ),
    "ar": (
        """أولا نحسب عدد المشابك التي باعتها ناتاليا في مايو: باعت نصف ما باعته في أبريل، أي $48 / 2 = 24$.
        ثم نجمع الشهرين معا. إذن باعت ٧٢ مشبكا في المجموع."""
    ),
    "hi": (
        """पहले हम पता करते हैं कि नतालिया ने मई में कितनी क्लिप बेचीं: उसने अप्रैल की आधी बेचीं, यानी $48 / 2 = 24$।
        फिर दोनों महीनों को जोड़ते हैं। उसने कुल ७२ क्लिप बेचीं।"""
    ),
    "ja": (
        """まず、ナタリアが五月に売ったクリップの数を求めます。四月の半分なので、$48 / 2 = 24$ 個です。
        次に二か月分を足します。合計で72個のクリップを売りました。"""
    ),
    "ko": (
        """먼저 나탈리아가 5월에 판 머리핀의 수를 구합니다. 4월의 절반이므로 $48 / 2 = 24$개입니다.
        그다음 두 달의 수를 더합니다. 모두 합해서 72개의 머리핀을 팔았습니다."""
    ),
    "it": (
        """Prima troviamo quante mollette ha venduto Natalia a maggio: ne ha vendute la metà di aprile, quindi
        $48 / 2 = 24$. Poi sommiamo i due mesi. In totale ha venduto 72 mollette per i capelli."""
    ),
    "pt": (
        """Primeiro descobrimos quantos grampos Natalia vendeu em maio: ela vendeu a metade do que vendeu em abril, ou
        seja, $48 / 2 = 24$. Depois somamos os dois meses. No total, ela vendeu 72 grampos."""
    ),
    "nl": (
        """Eerst zoeken we uit hoeveel speldjes Natalia in mei heeft verkocht: half zoveel als in april, dus
        $48 / 2 = 24$. Daarna tellen we de twee maanden bij elkaar op. In totaal verkocht ze 72 speldjes."""
    ),
    "pl": (
        """Najpierw obliczamy, ile spinek Natalia sprzedała w maju: sprzedała połowę tego, co w kwietniu, czyli
        $48 / 2 = 24$. Potem dodajemy oba miesiące. Łącznie w ciągu tych dwóch miesięcy
        sprzedała 72 spinki do włosów."""
    ),
    "th": (
        "ก่อนอื่นเราหาจำนวนกิ๊บที่นาตาเลียขายในเดือนพฤษภาคม ซึ่งเป็นครึ่งหนึ่งของเดือนเมษายน รวมแล้วเธอขายได้ 72 อัน"
    ),
}
QUESTION = {
    "en": "How many clips did Natalia sell altogether?",
    "zh": "娜塔莉亚一共卖了多少个发夹？",
    "es": "¿Cuántos broches vendió Natalia en total?",
    "fr": "Combien de barrettes Natalia a-t-elle vendues ?",
    "de": "Wie viele Spangen hat Natalia insgesamt verkauft?",
    "ru": "Сколько всего заколок продала Наталья?",
    "ar": "كم مشبكا باعت ناتاليا في المجموع؟",
    "hi": "नतालिया ने कुल कितनी क्लिप बेचीं?",
    "ja": "ナタリアは全部でいくつのクリップを売りましたか。",
    "ko": "나탈리아는 모두 몇 개의 머리핀을 팔았습니까?",
}


def share(text: str, language: str) -> float:
    return language_consistency([text], language=[language])[0]


@pytest.mark.parametrize("written", REASONING)
@pytest.mark.parametrize("wanted", REASONING)
def test_a_text_in_one_language(written, wanted):
    least, most = (1.0, 1.0) if written == wanted else (0.0, 0.05)
    assert (
        least <= share(f"<think>{REASONING[written]}</think>\n<answer>72</answer>", wanted) <= most
    )


@pytest.mark.parametrize("asked", QUESTION)
def test_the_prompt_names_the_language(asked):
    other = "en" if asked != "en" else "zh"
    for prompt in (
        QUESTION[asked],
        [{"role": "system", "content": "Reason step by step."}, _user(QUESTION[asked])],
    ):
        shares = language_consistency([REASONING[asked], REASONING[other]], prompts=[prompt] * 2)
        assert shares[0] == 1.0
        assert shares[1] <= 0.05


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


# (text, target, least, most)


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


# Texts that are wholly right in the language named.


@cases(__file__, "what_does_not_count", ("minutes + minutes = minutes, " * 20, "en"))
def test_what_does_not_count(text, language):
    assert share(text, language) == 1.0


def test_what_the_prompt_quotes_does_not_count():
    text = "我们每天读 twelve 页 book，一共读 pages，最后得到 answer。"
    assert language_consistency(
        [text], prompts=["一本 book 有多少 pages？twelve 页。answer 是什么？"]
    ) == [1.0]
    assert language_consistency([text], prompts=["一本书有多少页？"])[0] < 0.8
    # A prompt in the language to keep away from excuses nothing.
    assert (
        language_consistency(
            [text], prompts=["How many pages are in the book? Answer twelve."], language=["zh"]
        )[0]
        < 0.8
    )


def test_a_row_language_wins_over_the_prompt():
    prompts, text = ["How many apples are there in the basket?"] * 2, REASONING["fr"]
    assert language_consistency([text] * 2, prompts=prompts, language=["fr", None]) == [1.0, 0.0]


def test_a_prompt_of_bare_maths():
    text = REASONING["en"]
    assert language_consistency([text], prompts=["12 + 34 ="]) == [None]
    assert language_consistency([text]) == [None]
    system = {"role": "system", "content": "Think step by step, and then give the answer."}
    assert language_consistency([text], prompts=[[system, _user("12 + 34 =")]]) == [1.0]
    assert language_consistency([text], prompts=["Evaluate $12 + 34$."]) == [1.0]


def test_the_last_question_counts():
    prompt = [
        _user(QUESTION["zh"]),
        {"role": "assistant", "content": "七十二"},
        _user(QUESTION["de"]),
    ]
    assert language_consistency([REASONING["de"], REASONING["zh"]], prompts=[prompt] * 2) == [
        1.0,
        0.0,
    ]


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


def test_signature_of_the_trainer():
    columns = {
        "completion_ids": [[1]],
        "trainer_state": None,
        "log_metric": print,
        "solution": ["72"],
    }
    completion = [{"role": "assistant", "content": REASONING["en"]}]
    assert language_consistency(
        completions=[completion], prompts=[[_user("How many are there?")]], **columns
    ) == [1.0]
    assert language_consistency([], prompts=[]) == []


@pytest.mark.parametrize(
    "text",
    [
        REASONING["en"] * 400,
        "a" * 100_000,
        "word " * 20_000,
        "字" * 100_000,
        "a1" * 50_000,
        "$" * 100_000,
        "$a " * 33_000,
        "\\[" * 50_000,
        "\\(a" * 33_000,
        "`" * 100_000,
        "```a`" * 20_000,
        "\\begin{a}" * 11_000,
        "\\text{" * 16_000,
        "\\a" + " " * 100_000,
        "[asy]" * 20_000,
        "<" * 100_000,
        "." * 100_000,
        "Ab " * 33_000,
        "é" * 100_000,
        "http://" * 14_000,
    ],
)
def test_long_texts_take_linear_time(text):
    share("Load the detector with eight plain words of no list", "en")
    with far_below_quadratic():
        assert 0.0 <= share(text, "en") <= 1.0


def test_equal_shares_have_an_exact_mean():
    """A share of 1/3 would give a group without signal a standard deviation of 1e-8 in float32."""
    got = share("We have ten of them. 我们先求出总数然后除以二，得到最后的答案是六。", "en")
    assert 0.0 < got < 1.0
    assert (got * 256).is_integer()
