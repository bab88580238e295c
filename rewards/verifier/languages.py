r"""The number of a sentence in another language than English: "Ana tiene siete manzanas.",
"答案是十五。".

A sentence is read where its script or its common words, or the question's, show the language. It
has a number if it has exactly one, in digits or in words, and none of the language's words that
change, bound, doubt or deny it. To add a language, add an entry to `LANGUAGES`;
tests/rewards/verifier/second_mile.tsv has rows for every language.
"""

import re
import unicodedata
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rewards.verifier import number_words as words
from rewards.verifier.language import Language, spell
from rewards.verifier.notation import plain
from rewards.verifier.units import NAMES

_LONGEST = 200  # characters of a sentence that is read
_OR = re.compile(
    r"(?<!\w)(?:or|ou|oder|o|ή|или|либо|lub|albo|of|sau|veya|atau|hoặc|eller|nebo)(?!\w)|或|または|또는|أو|या|বা"
)
_THAN = re.compile(r"\s*(?:(?:que|di|de|do|of|als|than|чем|niż|dan|het|of|el|la|le)\s+)?")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
# A unit's square, in front of its name or behind it.
_SQUARE = re.compile(
    r"quadrat(?=[a-z]*meter)|平方(?=[厘分千]?米|公里)|квадратн\w+ (?=\w*метр)|(?<=metros) cuadrados|"
    r"(?<=mètres) carrés|(?<=metri) quadrati|(?<=metros) quadrados"
)
_LISTING = re.compile(  # what may stand between two candidates
    r"(?:[\W_]|(?<!\w)(?:and|or|to|et|und|y|e|i|и|ou|oder|o|u|или|à|a|bis|до|en|of|sau|și|lub|do|ve|veya|ile|hasta|at"
    r"é|fino|tot|và|hoặc|dan|atau|sampai|और|या|এবং|বা|أو|و|یا|اور)(?!\w)|[和或至到と]|か|または|から|또는)*"
)
_KO_ENDS = r"(?=\s*(?:도|입니다|이다|이에요|예요|개|명|원|시간|분|초|살|마리|권|장|[.]|$))"

# fmt: off
LANGUAGES = {
    "Spanish": Language(
        "", spell(words.ES, "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa", "{t} y {o}",
        "cien|ciento=100 doscientos|doscientas=200 trescientos|trescientas=300 cuatrocientos|cuatrocientas=400 "
        "quinientos|quinientas=500 seiscientos|seiscientas=600 setecientos|setecientas=700 "
        "ochocientos|ochocientas=800 novecientos|novecientas=900 mil=1000 millón|millones=1000000"),
        "la el los las es son hay tiene tienen queda quedan respuesta resultado por tanto lo del"
        " en una que cuántos cuántas cuál tarda dura cuesta se",
        r"no nunca ni tampoco más_(?:de|que) menos mayor menor al_menos como_(?:mínimo|máximo) a_lo_sumo o "
        r"u quizás? tal_vez posiblemente probablemente aproximad\w* alrededor unos unas casi cerca mitad doble triple "
        r"tercio cuarto entre hasta docenas? pero sino excepto cuadrado raíz podría puede creo falso incorrect\w*",
        "segundo=s minuto=min hora=h día=day semana=week mes=month año=year kilómetro=km centímetro=cm metro=m",
        "cuántos|cuántas", comma=True, joint="y", over=r"{n}\s{d}avos?", point="(?:coma|punto)",
        minus="(?<!al )(?<!lo )menos",
        parts=words.shares("medi terci cuart quint sext séptim octav noven décim", "o|os|a|as")),
    "French": Language(
        "", words.FRENCH,
        "la le les des est sont il elle reste réponse résultat donc au vaut combien y a dans et du dure met coûte",
        r"n' ne pas jamais ni plus_(?:de|que|d) moins au_(?:moins|plus|maximum|minimum) supérieur\w* "
        r"inférieur\w* ou peut peut_être probablement environ presque près moitié double triple tiers quart entre "
        r"jusqu douzaines? mais sauf carré racine approximativement pourrait pense faux fausse incorrect\w*",
        "seconde=s minute=min heure=h jour=day semaine=week mois=month an=year kilomètre=km centimètre=cm mètre=m",
        "combien d[e']", comma=True, glue=r"\s+(?:et\s+)?", joint="et", point="virgule", minus="(?<!au )moins",
        parts=words.shares("demi tiers quart cinquième sixième septième huitième neuvième dixième", "|s|e")),
    "German": Language(
        "", words.GERMAN,
        "die der das ist sind hat es ergebnis antwort also beträgt insgesamt wie viele und lautet"
        " übrig dauert kostet bleiben",
        r"nicht nie kein\w* weder mehr_als weniger_als größer kleiner mindestens höchstens wenigstens oder vielleicht "
        r"wahrscheinlich möglich\w* etwa ungefähr rund circa ca fast knapp hälfte doppelt\w* dreifach\w* drittel "
        r"viertel zwischen bis dutzend aber sondern außer quadrat wurzel könnte kann glaube falsch",
        "sekunde=s minute=min stunde=h tag=day woche=week monat=month jahr=year kilometer=km zentimeter=cm meter=m",
        "wie ?viele", comma=True, glue=r"(?:\s*und\s*|\s*)", point="komma", minus="minus",
        joint=r"(?:und|(?!\s?\w+tel|\s?halb))", parts=words.shares(
            "halb drittel viertel fünftel sechstel siebtel achtel neuntel zehntel", "|e", "anderthalb=3/2")),
    "Portuguese": Language(
        "", spell(words.PT, "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa", "{t} e {o}",
        "cem|cento=100 duzentos=200 trezentos=300 quatrocentos=400 quinhentos=500 seiscentos=600 setecentos=700 "
        "oitocentos=800 novecentos=900 mil=1000 milhão|milhões=1000000"),
        "a o as os é são há tem têm ã õ resposta resultado portanto quantos quantas resta restam"
        " no na leva custa ao igual",
        r"não nunca nem mais_(?:de|que|do) menos maior menor pelo_menos no_(?:mínimo|máximo) ou talvez "
        r"possivelmente provavelmente cerca aproximad\w* quase metade dobro triplo terço quarto entre até dúzias? mas "
        r"exceto senão quadrado raiz poderia pode acho será falso errad\w*",
        "segundo=s minuto=min hora=h dia=day semana=week mês=month meses=month ano=year quilômetro=km quilómetro=km "
        "centímetro=cm metro=m", "quantos|quantas", comma=True, glue=r"\s+(?:e\s+)?", joint="e", minus="(?<!lo )menos",
        over=r"{n}\s{d}\savos", point="vírgula",
        parts=words.shares("mei terç quart quint sext sétim oitav non décim", "o|os|a|as", "avos=0")),
    "Italian": Language(
        "", words.ITALIAN,
        "la il lo gli è sono ha risposta risultato quindi ci rimangono quante quanti in nel uguale totale dura costa",
        r"non mai né più_(?:di|che) meno maggiore minore almeno al_(?:massimo|"
        r"minimo) o oppure forse probabilmente circa quasi metà doppio triplo terzo quarto tra"
        r" fra fino dozzin\w+ ma tranne quadrato radice potrebbe può credo falso sbagliat\w*",
        "second=s minut=min or[ae]=h ora=h ore=h giorn=day settiman=week mes=month ann=year chilometr=km centimetr=cm "
        "metr=m", "quanti|quante", comma=True, glue=r"\s*", joint="e", point="virgola", minus="meno",
        parts=words.shares("mezz terz quart quint sest settim ottav non decim", "o|i|a|e")),
    "Indonesian": Language(
        "", words.INDONESIAN,
        "adalah jawabannya jawaban hasilnya ada jadi tersisa memiliki berapa sama dengan dalam yang banyak",
        "bukan tidak lebih kurang paling sedikitnya setidaknya minimal maksimal atau mungkin"
        " barangkali sekitar kira hampir setengah separuh dua_kali kali antara sampai hingga"
        " lusin tetapi tapi kecuali kuadrat akar apakah salah",
        "detik=s menit=min jam=h hari=day minggu=week bulan=month tahun=year kilometer=km sentimeter=cm meter=m",
        "berapa(?: banyak)?", comma=True, point="koma", minus="(?:minus|negatif)"),
    "Turkish": Language(
        "", words.TURKISH,
        "cevap sonuç sayı büyük küçük kaçtır kaçı var toplam kaç olur öyleyse kalır sepette eder elması",
        r"değil\w* yok fazla az en ya veya belki muhtemelen yaklaşık civarında neredeyse yarı\w* iki_katı kat\w* "
        r"arasında kadar düzine ama fakat hariç kare\w* kök\w* olabilir m[iıuü] yanlış",
        "saniye=s dakika=min saat=h gün=day hafta=week ay=month yıl=year kilometre=km santimetre=cm metre=m", "kaç",
        comma=True, counter="(?:'?[dt][ıiuü]r)?", joint="(?=buçuk)", over="{d}'?[dt][ea] {n}", point="virgül",
        minus="eksi", parts={"buçuk": Fraction(1, 2)}),
    "Vietnamese": Language(
        "", {word: n for word, n in words.VIETNAMESE.items() if n},
        "là đáp án có kết quả vậy còn lại bằng bao nhiêu tất cả trong",
        "không chẳng chưa hơn kém ít nhất tối hoặc hay có_lẽ có_thể khoảng gần nửa gấp giữa từ đến tá nhưng trừ bình "
        "căn phần sai", "giây=s phút=min giờ=h ngày=day tuần=week tháng=month năm=year", "bao nhiêu|mấy", comma=True,
        glue=r"\s+(?:(?:lẻ|linh)\s+)?", over="{n} phần {d}", point="phẩy", minus="âm"),
    "Russian": Language(
        "Ѐ-ӿ", spell(words.RU, "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
        "{t} {o}",
        "сто=100 двести=200 триста=300 четыреста=400 пятьсот=500 шестьсот=600 семьсот=700 восемьсот=800 девятьсот=900 "
        "тысяча|тысячи|тысяч=1000 миллион|миллиона|миллионов=1000000"), "",
        r"не ни нет больше меньше более менее свыше минимум максимум или либо возможно наверное"
        r" может вероятно около примерно приблизительно почти половин\w+ вдвое удвоенн\w+ треть"
        r" четверть от до между дюжин\w* но а_не кроме квадрат\w* корень корня невер\w+ неправ\w+",
        "секунд=s минут=min час=h дн=day день=day недел=week месяц=month лет=year год=year километр=km сантиметр=cm "
        "метр=m", "сколько", comma=True, joint=r"(?:цел\w+(?: и)?|с|и)", point="запятая", minus="минус",
        parts=words.shares("втор трет четвёрт пят шест седьм восьм девят десят", "ая|ых", "треть=1/3 трети=1/3 "
                           "третья=1/3 третьих=1/3 четверть=1/4 четверти=1/4 четвертых=1/4 половиной=1/2 полтора=3/2")),
    "Chinese and Japanese": Language(
        "㐀-鿿ぁ-ヿ", words.HAN, "",
        "不 没 沒 非 超过 超過 多于 多於 少于 少於 大于 小于 至少 至多 最多 最少 以上 以下 未満 以内 或 还是 也许 也許 可能 大概 大约 大約 约 約 左右 几乎"
        " 半 倍 到 至 之间 之間 打 但 除 平方 根 吗 嗎 呢 分之 错 第 ない ません ではな 違 なくとも より たぶん 多分 かも およそ ほぼ ほど くらい ぐらい"
        " から まで ダース しかし か[?？。]?$ 個か または もしくは 少な",
        "秒=s 分=min 小时=h 小時=h 時間=h 天=day 日=day 周=week 週=week 月=month 年=year 公里=km 千米=km 厘米=cm 米=m",
        "多少个?|几个?|何", glue="", spaced=False,
        left_out="[一二三四五六七八九十]+(?=角|边|邊|辺|次方)|一(?=共|定|样|起|直|般|旦)|[唯统]一", joint="[个個]",
        over="(?:{w}[又と])?{d}分[之の]{n}", point="[点點]", minus="(?:[负負]|マイナス)", parts={"半": Fraction(1, 2)}),
    "Korean": Language(
        "가-힣", words.KOREAN, "",
        "아니 아닙 않 없 이상 이하 미만 초과 보다 적어도 최소 최대 또는 혹은 거나 아마 약_ 대략 정도 거의 절반 반은 배 에서 부터 까지 사이 다스 하지만 제외"
        " 제곱 근 까 틀 분의",
        "초=s 분=min 시간=h 일=day 주=week 개월=month 달=month 년=year 킬로미터=km 센티미터=cm 미터=m", "몇", glue="",
        spaced=False, over=r"(?:{w}[와과]?\s?)?{d}\s?분의\s?{n}", point="점", minus="(?:마이너스|음의)"),
    "Hindi": Language(
        "ऀ-ॿ", spell(words.HI, "", "", "सौ=100 हज़ार|हजार=1000 लाख=100000 करोड़=10000000"), "",
        "नहीं न मत अधिक ज़्यादा ज्यादा कम से या अथवा शायद संभवतः लगभग करीब क़रीब आधा आधे दोगुना"
        " दुगुना तिगुना चौथाई तिहाई बीच तक दर्जन लेकिन परंतु सिवाय वर्ग वर्गमूल क्या गलत ग़लत",
        "सेकंड=s मिनट=min घंट=h दिन=day सप्ताह=week हफ़्ते=week हफ्ते=week मही=month साल=year वर्ष=year किलोमीटर=km "
        "मीटर=m", "कितने|कितनी", over="{n} बटा {d}", point="दशमलव", minus="(?:माइनस|ऋण)",
        parts=words.shares("", "", "तिहाई=1/3 चौथाई=1/4 ढाई=5/2 डेढ़=3/2")),
    "Bengali": Language(
        "ঀ-৿", spell(words.BN, "বিশ|কুড়ি ত্রিশ চল্লিশ পঞ্চাশ ষাট সত্তর আশি নব্বই", "", "একশ|একশো|শত=100 হাজার=1000"),
        "",
        r"নয় না নেই বেশি কম কমপক্ষে অন্তত সর্বোচ্চ সর্বাধিক বা অথবা সম্ভবত হয়তো প্রায়"
        r" অর্ধেক\w* দ্বিগুণ থেকে মধ্যে পর্যন্ত ডজন কিন্তু ছাড়া বর্গ বর্গমূল কি ভুল এবং",
        "সেকেন্ড=s মিনিট=min ঘণ্টা=h দিন=day সপ্তাহ=week মাস=month বছর=year", "কত", counter="(?:টি|টা|জন)?"),
    "Arabic and Urdu": Language(
        "؀-ۿ", words.ARABIC, "",
        r"ليس\w* لا لم لن غير أكثر أقل على_الأقل على_الأكثر أو ربما قد حوالي تقريبا تقريباً نحو"
        r" نصف ضعف ثلث ربع بين إلى حتى دزينة لكن إلا عدا مربع جذر هل خطأ نہیں نہ زیادہ کم از یا"
        r" شاید تقریباً نصف آدھا دوگنا سے تک درمیان درجن لیکن مگر سوا مربع جذر کیا غلط",
        "ثاني=s ثواني=s دقيق=min دقائق=min ساع=h يوم=day أيام=day أسبوع=week أسابيع=week شهر=month سن=year سیکنڈ=s "
        "منٹ=min گھنٹ=h دن=day ہفت=week مہین=month سال=year", "كم|کتنے|کتنی", glue=r"\s+و?", joint="و",
        point="فاصلة", minus="(?:سالب|ناقص)", parts=words.shares(
            "نصف ثلث ربع أخماس سدس أسباع ثمن أتساع أعشار", "", "أثلاث=1/3 أرباع=1/4 أسداس=1/6 أثمان=1/8")),
}
# fmt: on
_OTHER_SCRIPT = re.compile("[" + "".join(each.script for each in LANGUAGES.values()) + "]")
_MARKED = {name: each for name, each in LANGUAGES.items() if not each.script}
_COMMON = (
    "the is are of and there answer has have total how many what in a as no an to at be it that"
    " was or not"
)
_ENGLISH = frozenset(_COMMON.split())
_PLAINLY_ENGLISH = re.compile(
    r"(?i)\b(?:the|is|are|of|and|there|has|have|how|many|what|that|was|she|they)\b"
)
# as number words
_ENGLISH_TOO = frozenset(re.findall(r"\w+", "once cent cents mil elf on die sei a an no"))
_NUMERAL = re.compile(
    r"(?<![A-Za-z\d.])(?<!\d,)[-−]?\d+(?:[.,'  ]\d+)*(?:\s*/\s*\d+)?|[-−]?\\frac\{\d+\}\{\d+\}"
)


class SpokenNumber(NamedTuple):
    # the number with its unit, as English would write it; "" where there is an `objection` to it
    answer: str
    objection: str
    unit_unknown: bool  # whether an unknown word, a counted thing or a unit, follows the number


@lru_cache(maxsize=16384)
def spoken_number(text: str, question: str | None) -> SpokenNumber | None:
    """Return the number of `text` in another language than English; None where it is no such text
    or has no number."""
    if len(text) > _LONGEST or not re.search(r"[^\W\d_]", text.replace(r"\frac", "")):
        return None
    if _PLAINLY_ENGLISH.search(text) and (
        question is None or len(_PLAINLY_ENGLISH.findall(question)) > 1
    ):
        return None
    text = _normal(text)
    question = unicodedata.normalize("NFC", (question or "")[-2000:]).lower()
    languages = _languages(text, question)
    numbers = {_read(language, text, question) for language in languages} - {None}
    return numbers.pop() if len(numbers) == 1 else None


def in_digits(text: str, question: str) -> str:
    """Return `text` in lower case with its numbers in digits, except "one"; unchanged where it has
    no numbers in words of one language with spaces."""
    question = unicodedata.normalize("NFC", question).lower()
    languages = _languages(_normal(text), question)
    if len(languages) != 1 or not languages[0].spaced:
        return text
    language = languages[0]

    def digits(run: re.Match) -> str:
        n = language.value(run[0]) or 0
        return str(n) if n > 1 else run[0]

    in_words = _HYPHEN.sub(" ", unicodedata.normalize("NFC", text).lower())
    with_digits = language.number.sub(digits, language.in_digits(in_words, question))
    return with_digits if with_digits != in_words else text


def is_doubted(announcement: str) -> bool:
    """Whether `announcement`, "quizás la respuesta es", has words of another language that change
    or doubt an answer."""
    announcement = _normal(announcement)
    languages = _languages(announcement, "")
    return any(language.changed.search(announcement) for language in languages)


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", plain(text).replace("İ", "i")).lower().replace("’", "'")


def _languages(text: str, question: str) -> list[Language]:
    """Return the languages that `text` may be in: by its script, or by its common words and the
    question's."""
    if _OTHER_SCRIPT.search(text):
        with_script = [language for language in LANGUAGES.values() if language.script]
        return [language for language in with_script if re.search(f"[{language.script}]", text)]
    if re.search(r"\\(?!frac|text)[a-z]", text):
        return []
    # Words, and letters that only some alphabets have.
    words, asked = (
        {*re.findall(r"[^\W\d_]+", of), *(c for c in set(of) if not c.isascii())}
        for of in (text, question)
    )
    spaced = re.sub(r"[-\s]+", " ", text).strip(" .!")
    scores = {}
    for name, each in _MARKED.items():
        own, by_question = (
            sum(1 + (len(w) > 5) for w in of & each.common - _ENGLISH) for of in (words, asked)
        )
        found = each.number.search(spaced)
        own += 2 * (question != "" and found is not None and len(found[0]) > 4)
        whole = each.number.fullmatch(spaced) is not None and (
            by_question > 1 or spaced not in _ENGLISH_TOO
        )
        if (found or by_question) and (made := each.in_digits(spaced)) != spaced:
            own += 2 * (by_question > 0)
            whole = _NUMERAL.fullmatch(made) is not None and (
                by_question > 1 or not re.search(r"\d", spaced)
            )
        counted = re.fullmatch(rf"(?:{_NUMERAL.pattern}) ([^\W\d_]+)", spaced)  # "3 horas"
        whole = whole or (
            counted is not None and counted[1] not in NAMES and bool(each.unit(counted[1]))
        )
        foreign = by_question > max(1, len(asked & _ENGLISH - each.common)) and len(words) < 12
        score = own + by_question + 9 * whole
        if (whole or own > 1 or foreign) and score > len(words & _ENGLISH - each.common):
            scores[name] = score
    return [_MARKED[name] for name, score in scores.items() if score == max(scores.values())]


def _read(language: Language, text: str, question: str) -> SpokenNumber | None:
    spoken = _HYPHEN.sub(" ", text).strip(" .。!।۔")
    spoken = re.sub(r"(\d+(?:\.\d+)?)([万萬億亿])", _ten_thousands, spoken)
    spoken = re.sub(language.left_out, "", spoken) if language.left_out else spoken
    spoken, squares = _SQUARE.subn("", language.in_digits(spoken, question))
    if language.number.fullmatch(spoken):
        n = language.value(spoken)
        return None if n is None else SpokenNumber(str(n), "", False)
    found = _numbers(language, spoken)
    if len(found) > 1 and question:
        found = _unasked(found, spoken, language, question)
    changes = (change for change in language.changed.finditer(spoken) if found)
    change = next((m for m in changes if not _asked(m, found, question)), None)
    if not found or change or len(found) > 1:
        return (
            SpokenNumber("", f"the sentence says other than one number: {change[0]}", False)
            if found and change
            else None
        )
    _, end, numeral = found[0]
    if not numeral or re.search(r"[?？؟¿=+*^]", text):
        return None
    unit = language.unit(spoken[end:])
    unit = f"{unit}^2" if unit and squares else unit
    wanted = [language.unit(word) for word in language.asked.findall(question)]
    if unit and any(wanted) and unit not in wanted:
        return SpokenNumber("", "another unit than the question asks for", False)
    percent = "%" if re.match(r"\s*\\?%", spoken[end:]) else ""
    return SpokenNumber(
        _english(numeral, language.comma) + percent + (f" {unit}" if unit else ""), "", unit is None
    )


def _numbers(language: Language, spoken: str) -> list[tuple[int, int, str]]:
    """Where the numbers of a sentence begin and end, and each in digits; "" for "one" and for no
    one number."""
    found = [(match.start(), match.end(), match[0]) for match in _NUMERAL.finditer(spoken)]
    ends = _KO_ENDS if language.script == "가-힣" else ""
    runs = (
        re.finditer(rf"(?<!\S){language.number.pattern}{ends}", spoken)
        if ends
        else language.number.finditer(spoken)
    )
    for run in runs:
        n = language.value(run[0])
        # "5 năm", five years
        unit = language.unit_of.get(run[0]) and found and found[-1][1] == run.start() - 1
        if (n != 1 or not found) and not unit:
            found.append((run.start(), run.end(), "" if n is None or n == 1 else str(n)))
    return found


def _unasked(
    found: list[tuple[int, int, str]], spoken: str, language: Language, question: str
) -> list[tuple[int, int, str]]:
    """The one number that the question does not have, if all others stand apart from it, or beside
    a word as there."""
    asked = {
        _english(n, language.comma) for *_, n in _numbers(language, language.in_digits(question))
    }
    found = sorted(each for each in found if each[2])
    new = [each for each in found if _english(each[2], language.comma) not in asked]
    for (_, end, one), (start, _, other) in pairwise(found):
        between = spoken[end:start].strip(" %€$")
        if _OR.search(between):
            return found
        beside = (between and f"{between} {other}" in question) or f"{one} {between}" in question
        if _LISTING.fullmatch(between) and not beside:
            return found
    return new if len(new) == 1 else found


def _asked(change: re.Match, found: list[tuple[int, int, str]], question: str) -> bool:
    """Whether the question has the word too, as "mayor" in "el mayor divisor es 6", and no number
    stands behind it."""
    behind = any(
        _THAN.fullmatch(change.string[change.end() : start])
        for start, *_ in found
        if start >= change.end()
    )
    word = re.escape(change[0])
    word = rf"(?<!\w){word}(?!\w)" if change[0].isascii() else word
    return not behind and re.search(word, question) is not None


def _ten_thousands(match: re.Match) -> str:
    n = Fraction(match[1]) * (10**4 if match[2] in "万萬" else 10**8)
    return str(n) if n.denominator == 1 else match[0]


def _english(numeral: str, comma: bool) -> str:
    """A numeral with a decimal point and without marks between thousands."""
    if comma and re.fullmatch(r"[-−]?\d{1,3}(?:[. ]\d{3})+(?:,\d+)?", numeral):
        numeral = re.sub(r"[. ]", "", numeral)
    if (
        comma
        and re.fullmatch(r"[-−]?\d+,\d+", numeral)
        and not re.fullmatch(r"[-−]?[1-9]\d{0,2},\d{3}", numeral)
    ):
        return numeral.replace(",", ".")
    return numeral
