"""Number words of the languages, each with its value."""

import re
from fractions import Fraction

from rewards.verifier.language import spell


def shares(stems: str, ends: str, more: str = "") -> dict[str, Fraction]:
    """The parts from a half on, each stem with each of `ends`, and `more`, "anderthalb=3/2"."""
    named = {
        stem + end: Fraction(1, n)
        for n, stem in enumerate(stems.split(), 2)
        for end in ends.split("|")
    }
    return named | {word: Fraction(n) for word, n in (entry.split("=") for entry in more.split())}


ES = """cero uno|un|una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis
diecisiete dieciocho diecinueve veinte veintiuno|veintiún veintidós veintitrés veinticuatro veinticinco veintiséis
veintisiete veintiocho veintinueve"""
FR = """zéro un|une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix_sept
dix_huit dix_neuf"""
FRENCH = spell(
    FR, "vingt trente quarante cinquante soixante septante", "{t} {o}", "cent|cents=100 mille=1000"
)
FRENCH |= {f"{t} et un": n + 1 for t, n in list(FRENCH.items()) if n % 10 == 0 and 10 < n < 70}
FRENCH |= {f"soixante {word}": 60 + n for word, n in spell(FR, "", "").items() if n > 9} | {
    "soixante et onze": 71
}
FRENCH |= {f"quatre vingt {word}": 80 + n for word, n in spell(FR, "", "").items() if n} | {
    "quatre vingts": 80
}
FRENCH |= {"quatre vingt": 80}
IT = """zero uno|un|una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici
sedici diciassette diciotto diciannove"""
ITALIAN = spell(IT, "venti trenta quaranta cinquanta sessanta settanta ottanta novanta", "{t}{o}")
ITALIAN |= {
    re.sub(r"[ai](?=uno$|otto$)|(?<=.)e$(?!.)", "", w): n
    for w, n in ITALIAN.items()
    if n % 10 in (1, 8)
}
ITALIAN |= {f"{w[:-1]}é": n for w, n in ITALIAN.items() if n > 20 and n % 10 == 3} | {
    "cento": 100,
    "mille": 1000,
}
ITALIAN |= {"mila": 1000, "milione": 10**6, "milioni": 10**6}
DE = """null eins|ein|eine zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
siebzehn achtzehn neunzehn"""
_ZIG = "zwanzig dreißig|dreissig vierzig fünfzig sechzig siebzig achtzig neunzig"
GERMAN = spell(DE, _ZIG, "{o}und{t}", "hundert=100 tausend=1000")
ID = "nol satu dua tiga empat lima enam tujuh delapan sembilan sepuluh sebelas"
INDONESIAN = spell(
    ID, " ".join(f"{o}_puluh" for o in ID.split()[2:10]), "{t} {o}", "seratus|ratus=100"
)
INDONESIAN |= {f"{o} belas": 10 + n for n, o in enumerate(ID.split()[:10]) if n > 1}
INDONESIAN |= {"seribu": 1000, "ribu": 1000, "juta": 10**6}
TR = "sıfır bir iki üç dört beş altı yedi sekiz dokuz on"
TURKISH = spell(
    TR,
    "yirmi otuz kırk elli altmış yetmiş seksen doksan",
    "{t} {o}",
    "yüz=100 bin=1000 milyon=1000000",
)
TURKISH |= {f"on {o}": 10 + n for n, o in enumerate(TR.split()[:10]) if n}
VI = "không một|mốt hai ba bốn|tư năm|lăm sáu bảy tám chín mười"
VIETNAMESE = spell(
    VI,
    " ".join(f"{o}_mươi" for o in ["hai", "ba", "bốn", "năm", "sáu", "bảy", "tám", "chín"]),
    "{t} {o}",
)
VIETNAMESE |= {f"mười {o}": 10 + n for o, n in spell(VI, "", "").items() if 0 < n < 10}
VIETNAMESE |= {"trăm": 100, "nghìn": 1000, "ngàn": 1000, "triệu": 10**6}
PT = """zero um|uma dois|duas três quatro cinco seis sete oito nove dez onze doze treze catorze|quatorze quinze
dezesseis|dezasseis dezessete|dezassete dezoito dezenove|dezanove"""
RU = """ноль|нуль один|одна|одно два|две три четыре пять шесть семь восемь девять десять одиннадцать двенадцать
тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать"""
HI = """शून्य एक दो तीन चार पांच|पाँच छह|छः सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह|पन्द्रह सोलह सत्रह अठारह उन्नीस
बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस
अड़तीस उनतालीस चालीस इकतालीस बयालीस तैंतालीस चौवालीस|चवालीस पैंतालीस छियालीस सैंतालीस अड़तालीस उनचास पचास इक्यावन बावन
तिरपन चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर सत्तर इकहत्तर
बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उन्यासी अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी सत्तासी
अट्ठासी नवासी नब्बे इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे"""
BN = """শূন্য এক দুই তিন চার পাঁচ ছয় সাত আট নয় দশ এগারো বারো তেরো চৌদ্দ পনেরো ষোলো সতেরো আঠারো উনিশ"""
UR = "صفر ایک دو تین چار پانچ چھ سات آٹھ نو دس گیارہ بارہ تیرہ چودہ پندرہ سولہ سترہ اٹھارہ انیس"
AR = """صفر واحد|واحدة اثنان|اثنين|اثنتان ثلاثة|ثلاث أربعة|أربع خمسة|خمس ستة|ست سبعة|سبع ثمانية|ثماني|ثمان
تسعة|تسع عشرة|عشر
أحد_عشر|إحدى_عشرة اثنا_عشر|اثنتا_عشرة"""
ARABIC = spell(
    AR + "".join(f" {m}_عشر|{f}_عشرة" for m, f, *_ in (w.split("|") for w in AR.split()[3:10])),
    "عشرون|عشرين ثلاثون|ثلاثين أربعون|أربعين خمسون|خمسين ستون|ستين سبعون|سبعين ثمانون|ثمانين"
    " تسعون|تسعين",
    "{o} و{t}",
    "مئة|مائة=100 مئتان|مئتين=200 ألف|آلاف=1000",
)
ARABIC |= spell(UR, "بیس تیس چالیس پچاس ساٹھ ستر اسی نوے", "", "سو=100 ہزار=1000")
HAN = spell("零 一 二|两|兩 三 四 五 六 七 八 九 十", "", "", "百=100 千=1000 万|萬=10000")
KOREAN = spell("영|공 일 이 삼 사 오 육 칠 팔 구 십", "", "", "백=100 천=1000 만=10000")
KOREAN |= spell(
    "영 하나|한 둘|두 셋|세 넷|네 다섯 여섯 일곱 여덟 아홉 열",
    "스물|스무 서른 마흔 쉰 예순 일흔 여든 아흔",
    "",
)
