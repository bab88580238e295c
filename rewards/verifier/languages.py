r"""The number that a sentence in another language than English gives: "Ana tiene siete manzanas.", "答案是十五。".

A sentence is read where its script or its common words, or those of the question, tell the language. It gives a number
if it holds exactly one, in digits or in words, and none of the language's words that change, bound, doubt or
deny it. To
teach another language, add an entry to `LANGUAGES`; tests/rewards/verifier/second_mile.tsv has rows for each.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from rewards.verifier.notation import plain
from rewards.verifier.units import NAMES

_LONGEST = 200  # characters of a sentence that is read
_W = r"\w\u064b-\u065f\u0900-\u0dff"  # of a word: vowel signs are no letters to Python


def _spell(ones: str, tens: str, join: str, big: str = "") -> dict[str, int]:
    """Number words to values: `ones` from 0 on, `tens` from 20 on, between them `join`; "a|b" are two of one value."""
    small = [word.replace("_", " ").split("|") for word in ones.split()]
    high = [word.replace("_", " ").split("|") for word in tens.split()]
    words = {word: n for n, row in enumerate(small) for word in row}
    words |= {word: 10 * n for n, row in enumerate(high, 2) for word in row}
    for n, row in enumerate(high, 2):
        for m in range(1, 10) if join else ():
            words |= {join.format(t=t, o=o): 10 * n + m for t in row for o in small[m]}
    for entry in big.split():
        names, value = entry.split("=")
        words |= dict.fromkeys(names.replace("_", " ").split("|"), int(value))
    return words


@dataclass(frozen=True)
class Language:
    """What has to be known of a language. In the strings `_` is a space."""

    script: str  # a character class; "" for the Latin letters
    numbers: dict[str, int]
    marks: str  # common words that tell a language with Latin letters
    changes: str  # expressions that make a sentence with one number say something else
    units: str = ""  # "hora=h": words that begin so are this unit
    how_many: str = r"(?!)"
    glue: str = r"\s+"  # what may stand between number words
    spaced: bool = True  # whether words have spaces between them
    comma: bool = False  # whether decimals stand behind a comma
    counter: str = ""  # what may stand right behind a number word
    left_out: str = ""  # expressions with a number word in them that count nothing
    scales: frozenset[int] = field(default=frozenset({1000, 10**4, 10**5, 10**6, 10**7, 10**9}))

    @cached_property
    def common(self) -> frozenset[str]:
        return frozenset(self.marks.split())

    @cached_property
    def changed(self) -> re.Pattern:
        ends = rf"(?<![{_W}])(?:{{}})(?![{_W}])" if self.spaced else "{}"
        return re.compile(
            ends.format((self.changes + _BOUND * (not self.script)).strip().replace("_", r"\s+").replace(" ", "|"))
        )

    @cached_property
    def asked(self) -> re.Pattern:
        return re.compile(rf"(?:{self.how_many})\s*([{_W}]+)")

    @cached_property
    def number(self) -> re.Pattern:
        """A run of number words."""
        words = "|".join(map(re.escape, sorted(self.numbers, key=len, reverse=True)))
        run = rf"(?>{words})(?:(?:{self.glue})(?>{words}))*+"  # no way back: 2^n ways to cut a run of n words
        return re.compile(rf"(?<![{_W}]){run}(?={self.counter}(?![{_W}]))" if self.spaced else run)

    @cached_property
    def word(self) -> re.Pattern:
        return re.compile("|".join(map(re.escape, sorted(self.numbers, key=len, reverse=True))))

    @cached_property
    def unit_of(self) -> dict[str, str]:
        return dict(entry.split("=") for entry in self.units.split())

    def value(self, run: str) -> int | None:
        """What number words in a row come to; None where they are several numbers."""
        total = group = 0
        last, scale = None, 10**12
        for word in self.word.findall(run):
            n = self.numbers[word]
            if n in self.scales:
                if n >= scale:
                    return None
                total, group, scale = total + (group or 1) * n, 0, n
            elif (n in (10, 100) and not self.spaced) or n == 100:  # 十, and a hundred as a factor
                if last is not None and 0 < last < 10:
                    group += last * (n - 1)
                elif group % (10 * n):
                    return None
                else:
                    group += n
            else:
                filled = 10 if n < 10 and (not self.spaced or group % 100 == 0) else 100 if n < 100 else 1000
                if group % filled or (last is not None and last < 10):
                    return None
                group += n
            last = n
        return total + group

    def unit(self, after: str) -> str | None:
        """The unit that `after` begins with; "" for none, None for a word that is not known."""
        after = after.lstrip(" $个個か}\\")
        for stem, name in self.unit_of.items():
            if after.startswith(stem):
                return name
        word = re.match(rf"[{_W}]+", after)
        return "" if word is None else NAMES.get(word[0])


_ES = """cero uno|un|una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis
diecisiete dieciocho diecinueve veinte veintiuno|veintiún veintidós veintitrés veinticuatro veinticinco veintiséis
veintisiete veintiocho veintinueve"""
_FR = """zéro un|une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix_sept
dix_huit dix_neuf"""
_FRENCH = _spell(_FR, "vingt trente quarante cinquante soixante septante", "{t} {o}", "cent|cents=100 mille=1000")
_FRENCH |= {f"{t} et un": n for t, n in list(_FRENCH.items()) if n % 10 == 0 and 10 < n < 70}
_FRENCH |= {f"soixante {word}": 60 + n for word, n in _spell(_FR, "", "").items() if n > 9} | {"soixante et onze": 71}
_FRENCH |= {f"quatre vingt {word}": 80 + n for word, n in _spell(_FR, "", "").items() if n} | {"quatre vingts": 80}
_FRENCH |= {"quatre vingt": 80}
_IT = """zero uno|un|una due tre sei_ quattro cinque sei sette otto nove dieci undici dodici tredici
quattordici quindici
sedici diciassette diciotto diciannove""".replace("sei_ ", "")
_ITALIAN = _spell(_IT, "venti trenta quaranta cinquanta sessanta settanta ottanta novanta", "{t}{o}")
_ITALIAN |= {re.sub(r"[ai](?=uno$|otto$)|(?<=.)e$(?!.)", "", w): n for w, n in _ITALIAN.items() if n % 10 in (1, 8)}
_ITALIAN |= {f"{w[:-1]}é": n for w, n in _ITALIAN.items() if n > 20 and n % 10 == 3} | {"cento": 100, "mille": 1000}
_DE = """null eins|ein|eine zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
fünfzehn sechzehn
siebzehn achtzehn neunzehn"""
_ID = "nol satu dua tiga empat lima enam tujuh delapan sembilan sepuluh sebelas"
_INDONESIAN = _spell(_ID, " ".join(f"{o}_puluh" for o in _ID.split()[2:10]), "{t} {o}", "seratus|ratus=100")
_INDONESIAN |= {f"{o} belas": 10 + n for n, o in enumerate(_ID.split()[:10]) if n > 1}
_INDONESIAN |= {"seribu": 1000, "ribu": 1000, "juta": 10**6}
_TR = "sıfır bir iki üç dört beş altı yedi sekiz dokuz on"
_TURKISH = _spell(_TR, "yirmi otuz kırk elli altmış yetmiş seksen doksan", "{t} {o}", "yüz=100 bin=1000 milyon=1000000")
_TURKISH |= {f"on {o}": 10 + n for n, o in enumerate(_TR.split()[:10]) if n}
_VI = "không một|mốt hai ba bốn|tư năm|lăm sáu bảy tám chín mười"
_VIETNAMESE = _spell(
    _VI, " ".join(f"{o}_mươi" for o in ["hai", "ba", "bốn", "năm", "sáu", "bảy", "tám", "chín"]), "{t} {o}"
)
_VIETNAMESE |= {f"mười {o}": 10 + n for o, n in _spell(_VI, "", "").items() if 0 < n < 10}
_VIETNAMESE |= {"trăm": 100, "nghìn": 1000, "ngàn": 1000, "triệu": 10**6}
_PT = """zero um|uma dois|duas três quatro cinco seis sete oito nove dez onze doze treze catorze|quatorze quinze
dezesseis|dezasseis dezessete|dezassete dezoito dezenove|dezanove"""
_RU = """ноль|нуль один|одна|одно два|две три четыре пять шесть семь восемь девять десять одиннадцать
двенадцать тринадцать
четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать"""
_HI = """शून्य एक दो तीन चार पांच|पाँच छह|छः सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह|पन्द्रह सोलह सत्रह अठारह उन्नीस
बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस
अड़तीस उनतालीस चालीस इकतालीस बयालीस तैंतालीस चौवालीस|चवालीस पैंतालीस छियालीस सैंतालीस अड़तालीस उनचास पचास इक्यावन बावन
तिरपन चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर सत्तर इकहत्तर
बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उन्यासी अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी सत्तासी
अट्ठासी नवासी नब्बे इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे"""
_BN = """শূন্য এক দুই তিন চার পাঁচ ছয় সাত আট নয় দশ এগারো বারো তেরো চৌদ্দ পনেরো ষোলো সতেরো আঠারো উনিশ"""
_UR = "صفر ایک دو تین چار پانچ چھ سات آٹھ نو دس گیارہ بارہ تیرہ چودہ پندرہ سولہ سترہ اٹھارہ انیس"
_AR = """صفر واحد|واحدة اثنان|اثنين|اثنتان ثلاثة|ثلاث أربعة|أربع خمسة|خمس ستة|ست سبعة|سبع ثمانية|ثماني|ثمان
تسعة|تسع عشرة|عشر
أحد_عشر|إحدى_عشرة اثنا_عشر|اثنتا_عشرة"""
_ARABIC = _spell(
    _AR + "".join(f" {m}_عشر|{f}_عشرة" for m, f, *_ in (w.split("|") for w in _AR.split()[3:10])),
    "عشرون|عشرين ثلاثون|ثلاثين أربعون|أربعين خمسون|خمسين ستون|ستين سبعون|سبعين ثمانون|ثمانين تسعون|تسعين",
    "{o} و{t}",
    "مئة|مائة=100 مئتان|مئتين=200 ألف|آلاف=1000",
)
_ARABIC |= _spell(_UR, "بیس تیس چالیس پچاس ساٹھ ستر اسی نوے", "", "سو=100 ہزار=1000")
_HAN = _spell("零 一 二|两|兩 三 四 五 六 七 八 九 十", "", "", "百=100 千=1000 万|萬=10000")
_KO_ENDS = r"(?=\s*(?:입니다|이다|이에요|예요|개|명|원|시간|분|초|살|마리|권|장|[.]|$))"
_KOREAN = _spell("영|공 일 이 삼 사 오 육 칠 팔 구 십", "", "", "백=100 천=1000 만=10000")

LANGUAGES = {
    "Spanish": Language(
        "",
        _spell(
            _ES,
            "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
            "{t} y {o}",
            "cien|ciento=100 doscientos|doscientas=200 trescientos|trescientas=300 cuatrocientos|cuatrocientas=400 "
            "quinientos|quinientas=500 seiscientos|seiscientas=600 setecientos|setecientas=700 "
            "ochocientos|ochocientas=800 novecientos|novecientas=900 mil=1000 millón|millones=1000000",
        ),
        "la el los las es son hay tiene tienen queda quedan respuesta resultado por tanto lo del en una que "
        "cuántos cuántas "
        "cuál tarda dura cuesta se",
        r"no nunca ni tampoco más_(?:de|que) menos_(?:de|que) mayor menor al_menos como_(?:mínimo|máximo) "
        r"a_lo_sumo o u "
        r"quizás? tal_vez posiblemente probablemente aproximad\w* alrededor unos unas casi cerca mitad doble triple "
        r"tercio cuarto entre hasta docenas? pero sino excepto cuadrado raíz podría puede creo falso incorrect\w*",
        "segundo=s minuto=min hora=h día=day semana=week mes=month año=year kilómetro=km centímetro=cm metro=m",
        "cuántos|cuántas",
        comma=True,
    ),
    "French": Language(
        "",
        _FRENCH,
        "la le les des est sont il elle reste réponse résultat donc au vaut combien y a dans et du dure met coûte",
        r"n' ne pas jamais ni plus_(?:de|que|d) moins_(?:de|que|d) au_(?:moins|plus|maximum|minimum) supérieur\w* "
        r"inférieur\w* ou peut peut_être probablement environ presque près moitié double triple tiers quart entre "
        r"jusqu douzaines? mais sauf carré racine approximativement pourrait pense faux fausse incorrect\w*",
        "seconde=s minute=min heure=h jour=day semaine=week mois=month an=year kilomètre=km centimètre=cm mètre=m",
        "combien d[e']",
        comma=True,
        glue=r"\s+(?:et\s+)?",
    ),
    "German": Language(
        "",
        _spell(
            _DE,
            "zwanzig dreißig|dreissig vierzig fünfzig sechzig siebzig achtzig neunzig",
            "{o}und{t}",
            "hundert=100 tausend=1000",
        ),
        "die der das ist sind hat es ergebnis antwort also beträgt insgesamt wie viele und lautet übrig "
        "dauert kostet bleiben",
        r"nicht nie kein\w* weder mehr_als weniger_als größer kleiner mindestens höchstens wenigstens oder vielleicht "
        r"wahrscheinlich möglich\w* etwa ungefähr rund circa ca fast knapp hälfte doppelt\w* dreifach\w* "
        r"drittel viertel "
        r"zwischen bis dutzend aber sondern außer quadrat wurzel könnte kann glaube falsch",
        "sekunde=s minute=min stunde=h tag=day woche=week monat=month jahr=year kilometer=km zentimeter=cm meter=m",
        "wie ?viele",
        comma=True,
        glue=r"(?:\s*und\s*|\s*)",
    ),
    "Portuguese": Language(
        "",
        _spell(
            _PT,
            "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
            "{t} e {o}",
            "cem|cento=100 duzentos=200 trezentos=300 quatrocentos=400 quinhentos=500 seiscentos=600 setecentos=700 "
            "oitocentos=800 novecentos=900 mil=1000 milhão|milhões=1000000",
        ),
        "a o as os é são há tem têm ã õ resposta resultado portanto quantos quantas resta restam no na leva "
        "custa ao igual",
        r"não nunca nem mais_(?:de|que|do) menos_(?:de|que|do) maior menor pelo_menos no_(?:mínimo|máximo) ou talvez "
        r"possivelmente provavelmente cerca aproximad\w* quase metade dobro triplo terço quarto entre até "
        r"dúzias? mas exceto senão quadrado raiz poderia pode acho será falso errad\w*",
        "segundo=s minuto=min hora=h dia=day semana=week mês=month meses=month ano=year quilômetro=km quilómetro=km "
        "centímetro=cm metro=m",
        "quantos|quantas",
        comma=True,
        glue=r"\s+(?:e\s+)?",
    ),
    "Italian": Language(
        "",
        _ITALIAN,
        "la il lo gli è sono ha risposta risultato quindi ci rimangono quante quanti in nel uguale totale dura costa",
        r"non mai né più_(?:di|che) meno_(?:di|che) maggiore minore almeno al_(?:massimo|minimo) o oppure forse "
        r"probabilmente circa quasi metà doppio triplo terzo quarto tra fra fino dozzin\w+ ma tranne quadrato radice "
        r"potrebbe può credo falso sbagliat\w*",
        "second=s minut=min or[ae]=h ora=h ore=h giorn=day settiman=week mes=month ann=year chilometr=km "
        "centimetr=cm metr=m",
        "quanti|quante",
        comma=True,
        glue=r"\s*",
    ),
    "Indonesian": Language(
        "",
        _INDONESIAN,
        "adalah jawabannya jawaban hasilnya ada jadi tersisa memiliki berapa sama dengan dalam yang banyak",
        r"bukan tidak lebih kurang paling sedikitnya setidaknya minimal maksimal atau mungkin barangkali sekitar kira "
        r"hampir setengah separuh dua_kali kali antara sampai hingga lusin tetapi tapi kecuali kuadrat akar "
        r"apakah salah",
        "detik=s menit=min jam=h hari=day minggu=week bulan=month tahun=year kilometer=km sentimeter=cm meter=m",
        "berapa(?: banyak)?",
        comma=True,
    ),
    "Turkish": Language(
        "",
        _TURKISH,
        "cevap sonuç var toplam kaç olur öyleyse kalır sepette eder elması",
        r"değil\w* yok fazla az en ya veya belki muhtemelen yaklaşık civarında neredeyse yarı\w* iki_katı "
        r"kat\w* arasında "
        r"kadar düzine ama fakat hariç kare\w* kök\w* olabilir m[iıuü] yanlış",
        "saniye=s dakika=min saat=h gün=day hafta=week ay=month yıl=year kilometre=km santimetre=cm metre=m",
        "kaç",
        comma=True,
    ),
    "Vietnamese": Language(
        "",
        {word: n for word, n in _VIETNAMESE.items() if n},
        "là đáp án có kết quả vậy còn lại bằng bao nhiêu tất cả trong",
        r"không chẳng chưa hơn kém ít nhất tối hoặc hay có_lẽ có_thể khoảng gần nửa gấp giữa từ đến tá nhưng trừ bình "
        r"căn phần sai",
        "giây=s phút=min giờ=h ngày=day tuần=week tháng=month năm=year",
        "bao nhiêu|mấy",
        comma=True,
        glue=r"\s+(?:(?:lẻ|linh)\s+)?",
    ),
    "Russian": Language(
        "Ѐ-ӿ",
        _spell(
            _RU,
            "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
            "{t} {o}",
            "сто=100 двести=200 триста=300 четыреста=400 пятьсот=500 шестьсот=600 семьсот=700 восемьсот=800 "
            "девятьсот=900 "
            "тысяча|тысячи|тысяч=1000 миллион|миллиона|миллионов=1000000",
        ),
        "",
        r"не ни нет больше меньше более менее свыше минимум максимум или либо возможно наверное может вероятно около "
        r"примерно приблизительно почти половин\w+ вдвое удвоенн\w+ треть четверть от до между дюжин\w* но а_не кроме "
        r"квадрат\w* корень корня невер\w+ неправ\w+",
        "секунд=s минут=min час=h дн=day день=day недел=week месяц=month лет=year год=year километр=km "
        "сантиметр=cm метр=m",
        "сколько",
        comma=True,
    ),
    "Chinese and Japanese": Language(
        "㐀-鿿ぁ-ヿ",
        _HAN,
        "",
        r"不 没 沒 非 超过 超過 多于 多於 少于 少於 大于 小于 至少 至多 最多 最少 以上 以下 未満 以内 或 "
        r"还是 也许 也許 可能 "
        r"大概 大约 大約 约 約 左右 几乎 半 倍 到 至 之间 之間 打 但 除 平方 根 吗 嗎 呢 分之 错 第 "
        r"ない ません ではな 違 なくとも より たぶん 多分 かも およそ ほぼ ほど くらい ぐらい "
        r"から まで ダース しかし か[?？。]?$ "
        r"個か または もしくは 少な",
        "秒=s 分=min 小时=h 小時=h 時間=h 天=day 日=day 周=week 週=week 月=month 年=year 公里=km 千米=km 厘米=cm 米=m",
        "多少个?|几个?|何",
        glue="",
        spaced=False,
        left_out="[一二三四五六七八九十]+(?=角|边|邊|辺|次方)|一(?=共|定|样|起|直|般|旦)|[唯统]一",
    ),
    "Korean": Language(
        "가-힣",
        _KOREAN,
        "",
        r"아니 아닙 않 없 이상 이하 미만 초과 보다 적어도 최소 최대 또는 혹은 거나 아마 약_ 대략 정도 거의 "
        r"절반 반은 배 "
        r"에서 부터 까지 사이 다스 하지만 제외 제곱 근 까 틀 분의",
        "초=s 분=min 시간=h 일=day 주=week 개월=month 달=month 년=year 킬로미터=km 센티미터=cm 미터=m",
        "몇",
        glue="",
        spaced=False,
    ),
    "Hindi": Language(
        "ऀ-ॿ",
        _spell(_HI, "", "", "सौ=100 हज़ार|हजार=1000 लाख=100000 करोड़=10000000"),
        "",
        r"नहीं न मत अधिक ज़्यादा ज्यादा कम से या अथवा शायद संभवतः लगभग करीब क़रीब आधा आधे दोगुना दुगुना "
        r"तिगुना चौथाई तिहाई "
        r"बीच तक दर्जन लेकिन परंतु सिवाय वर्ग वर्गमूल क्या गलत ग़लत",
        "सेकंड=s मिनट=min घंट=h दिन=day सप्ताह=week हफ़्ते=week हफ्ते=week मही=month साल=year वर्ष=year किलोमीटर=km मीटर=m",
        "कितने|कितनी",
    ),
    "Bengali": Language(
        "ঀ-৿",
        _spell(_BN, "বিশ|কুড়ি ত্রিশ চল্লিশ পঞ্চাশ ষাট সত্তর আশি নব্বই", "", "একশ|একশো|শত=100 হাজার=1000"),
        "",
        r"নয় না নেই বেশি কম কমপক্ষে অন্তত সর্বোচ্চ সর্বাধিক বা অথবা সম্ভবত হয়তো প্রায় অর্ধেক\w* দ্বিগুণ "
        r"থেকে মধ্যে পর্যন্ত "
        r"ডজন কিন্তু ছাড়া বর্গ বর্গমূল কি ভুল এবং",
        "সেকেন্ড=s মিনিট=min ঘণ্টা=h দিন=day সপ্তাহ=week মাস=month বছর=year",
        "কত",
        counter="(?:টি|টা|জন)?",
    ),
    "Arabic and Urdu": Language(
        "؀-ۿ",
        _ARABIC,
        "",
        r"ليس\w* لا لم لن غير أكثر أقل على_الأقل على_الأكثر أو ربما قد حوالي تقريبا تقريباً نحو نصف ضعف ثلث "
        r"ربع بين إلى حتى "
        r"دزينة لكن إلا عدا مربع جذر هل خطأ "
        r"نہیں نہ زیادہ کم از یا شاید تقریباً نصف آدھا دوگنا سے تک درمیان درجن لیکن مگر سوا مربع جذر کیا غلط",
        "ثاني=s ثواني=s دقيق=min دقائق=min ساع=h يوم=day أيام=day أسبوع=week أسابيع=week شهر=month سن=year "
        "سیکنڈ=s منٹ=min گھنٹ=h دن=day ہفت=week مہین=month سال=year",
        "كم|کتنے|کتنی",
        glue=r"\s+و?",
    ),
}
_OTHER_SCRIPT = re.compile("[" + "".join(each.script for each in LANGUAGES.values()) + "]")
_MARKED = {name: each for name, each in LANGUAGES.items() if not each.script}
_ENGLISH = frozenset(
    re.findall(
        r"\w+", "the is are of and there answer has have total how many what in a as no an to at be it that was or not"
    )
)
_PLAINLY_ENGLISH = re.compile(r"(?i)\b(?:the|is|are|of|and|there|has|have|how|many|what|that|was|she|they)\b")
_ENGLISH_TOO = frozenset(re.findall(r"\w+", "once cent cents mil elf on die sei a an no"))  # as number words
_NUMERAL = re.compile(r"(?<![A-Za-z\d.])(?<!\d,)[-−]?\d+(?:[.,'  ]\d+)*(?:\s*/\s*\d+)?|[-−]?\\frac\{\d+\}\{\d+\}")


_BOUND = r" m[ií]n\w*m\w* m[aáà][xks]\w*m\w* l[ií]mi\w* estim\w* ap+rox\w*"  # much the same in all with Latin letters


class Said(NamedTuple):
    answer: str  # the number with its unit, as English would write it; "" where `objection` says why there is none
    objection: str
    unit_unknown: bool  # whether an unknown word, a counted thing or a unit, follows the number


@lru_cache(maxsize=16384)
def number_said(text: str, question: str | None) -> Said | None:
    """The number that `text` gives in another language than English; None where it is no such text or has no number."""
    if len(text) > _LONGEST or not re.search(r"[^\W\d_]", text.replace(r"\frac", "")):
        return None
    if _PLAINLY_ENGLISH.search(text) and (question is None or len(_PLAINLY_ENGLISH.findall(question)) > 1):
        return None
    text = _normal(text)
    asked = unicodedata.normalize("NFC", (question or "")[-2000:]).lower()
    languages = _languages(text, asked)
    readings = {reading for each in languages if (reading := _read(each, text, asked)) is not None}
    return readings.pop() if len(readings) == 1 else None


def doubted(announced: str) -> bool:
    """Whether `announced`, "quizás la respuesta es", has words of another language that change or doubt an answer."""
    announced = _normal(announced)
    return any(each.changed.search(announced) for each in _languages(announced, ""))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", plain(text).replace("İ", "i")).lower().replace("’", "'")


def _languages(text: str, question: str) -> list[Language]:
    """The languages that `text` may be in: by its script, or by its common words and those of the question."""
    if _OTHER_SCRIPT.search(text):
        return [each for each in LANGUAGES.values() if each.script and re.search(f"[{each.script}]", text)]
    if re.search(r"\\(?!frac|text)[a-z]", text):
        return []
    # Words, and letters that only some alphabets have.
    words, asked = (
        {*re.findall(r"[^\W\d_]+", of), *(c for c in set(of) if not c.isascii())} for of in (text, question)
    )
    spaced = re.sub(r"[-\s]+", " ", text).strip(" .!")
    scores = {}
    for name, each in _MARKED.items():
        own, by_question = (sum(1 + (len(w) > 5) for w in of & each.common - _ENGLISH) for of in (words, asked))
        whole = each.number.fullmatch(spaced) is not None and (by_question > 1 or spaced not in _ENGLISH_TOO)
        counted = re.fullmatch(rf"(?:{_NUMERAL.pattern}) ([^\W\d_]+)", spaced)  # "3 horas"
        whole = whole or (counted is not None and counted[1] not in NAMES and bool(each.unit(counted[1])))
        foreign = by_question > max(1, len(asked & _ENGLISH - each.common)) and len(words) < 12
        score = own + by_question + 9 * whole
        if (whole or own > 1 or foreign) and score > len(words & _ENGLISH - each.common):
            scores[name] = score
    return [_MARKED[name] for name, score in scores.items() if score == max(scores.values())]


def _read(language: Language, text: str, question: str) -> Said | None:
    spoken = re.sub(r"(?<=[^\W\d_])-(?=[^\W\d_])", " ", text).strip(" .。!।۔")
    spoken = re.sub(language.left_out, "", spoken) if language.left_out else spoken
    if language.number.fullmatch(spoken):
        n = language.value(spoken)
        return None if n is None else Said(str(n), "", False)
    found = [(match.start(), match.end(), match[0]) for match in _NUMERAL.finditer(spoken)]
    ends = _KO_ENDS if language.script == "가-힣" else ""
    runs = re.finditer(rf"(?<!\S){language.number.pattern}{ends}", spoken) if ends else language.number.finditer(spoken)
    for run in runs:
        n = language.value(run[0])
        unit = language.unit_of.get(run[0]) and found and found[-1][1] == run.start() - 1  # "5 năm", five years
        if (n != 1 or not found) and not unit:
            found.append((run.start(), run.end(), "" if n is None or n == 1 else str(n)))
    if not found or (change := language.changed.search(spoken)) or len(found) > 1:
        return Said("", f"the sentence says other than one number: {change[0]}", False) if found and change else None
    _, end, numeral = found[0]
    if not numeral or re.search(r"[?？؟¿=+*^]", text):
        return None
    unit = language.unit(spoken[end:])
    wanted = [language.unit(word) for word in language.asked.findall(question)]
    if unit and any(wanted) and unit not in wanted:
        return Said("", "another unit than the question asks for", False)
    percent = "%" if re.match(r"\s*\\?%", spoken[end:]) else ""
    return Said(_english(numeral, language.comma) + percent + (f" {unit}" if unit else ""), "", unit is None)


def _english(numeral: str, comma: bool) -> str:
    """A numeral with a decimal point and without marks between thousands."""
    if comma and re.fullmatch(r"[-−]?\d{1,3}(?:[. ]\d{3})+(?:,\d+)?", numeral):
        numeral = re.sub(r"[. ]", "", numeral)
    if comma and re.fullmatch(r"[-−]?\d+,\d+", numeral) and not re.fullmatch(r"[-−]?[1-9]\d{0,2},\d{3}", numeral):
        return numeral.replace(",", ".")
    return numeral
