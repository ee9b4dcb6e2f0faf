"""Dates and times as people and programs write them, in the common forms and languages; `\\d` takes all digits."""

import re

_MONTHS = """
january february march april may june july august september october november december jan feb mar apr jun jul aug sep
sept oct nov dec januar jänner februar märz mai juni juli oktober dezember mär okt dez janvier février mars avril juin
juillet août septembre octobre novembre décembre janv févr juil enero febrero marzo abril mayo junio julio agosto
septiembre setiembre octubre noviembre diciembre gennaio febbraio aprile maggio giugno luglio settembre ottobre
dicembre janeiro fevereiro março maio junho julho setembro outubro dezembro novembro januari februari maart mei
augustus stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia января
февраля марта апреля мая июня июля августа сентября октября ноября декабря январь февраль март апрель май июнь июль
август сентябрь октябрь ноябрь декабрь січня лютого березня квітня травня червня липня серпня вересня жовтня листопада
грудня ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık يناير فبراير مارس أبريل ابريل إبريل
مايو يونيو يوليو أغسطس اغسطس سبتمبر أكتوبر اكتوبر نوفمبر ديسمبر شباط آذار نيسان أيار حزيران تموز آب أيلول जनवरी फ़रवरी
फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर सितम्बर अक्टूबर अक्तूबर नवंबर नवम्बर दिसंबर दिसम्बर maret agustus
desember ianuarie februarie martie aprilie iunie iulie septembrie octombrie noiembrie decembrie ינואר פברואר מרץ אפריל
מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר
"""
_WEEKDAYS = """
monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun montag dienstag
mittwoch donnerstag freitag samstag sonnabend sonntag lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes
miércoles jueves viernes sábado domingo lunedì martedì mercoledì giovedì venerdì sabato domenica segunda-feira
terça-feira quarta-feira quinta-feira sexta-feira maandag dinsdag woensdag donderdag vrijdag zaterdag zondag
poniedziałek wtorek środa czwartek piątek sobota niedziela понедельник вторник среда четверг пятница суббота
воскресенье pazartesi salı çarşamba perşembe cuma cumartesi pazar الاثنين الإثنين الثلاثاء الأربعاء الاربعاء الخميس
الجمعة السبت الأحد الاحد सोमवार मंगलवार बुधवार गुरुवार शुक्रवार शनिवार रविवार
"""


def _any_of(words: str) -> str:
    longest_first = sorted(map(re.escape, words.split()), key=len, reverse=True)
    return f"(?:{'|'.join(longest_first)})"


_CJK = "〇零一二三四五六七八九十"
_MONTH = rf"(?<!\w){_any_of(_MONTHS)}\.?(?!\w)"
_WEEKDAY = rf"(?<!\w){_any_of(_WEEKDAYS)}\.?(?!\w)"
_DAY = r"(?<!\d)\d{1,2}(?:st|nd|rd|th|er|º|ª|\.)?(?!\d)"
_YEAR = r"(?<!\d)(?:19|20|१९|२०|١٩|٢٠|۱۳|۱۴|۲۰)\d\d(?!\d)(?:\s?(?:г\.|года|年))?"
_OF = r"(?:\s*(?:of|de|del|di|من))?\s*,?\s*"
_ZONE = r"(?:\s?(?:Z(?!\w)|(?:UTC|GMT|CES?T|[ECMP][SD]T|MSK|JST|IST|KST)(?!\w)|(?:UTC|GMT)?[+\-−]\d{1,2}:?\d\d(?!\d)))?"
_HALF = r"(?:\s?(?:[ap]\.?m\.?(?!\w)|ص|م))?"
_CLOCK = (
    rf"(?:上午|下午|午前|午後|오전|오후)?\s?(?<![\d:])\d{{1,2}}:\d\d(?::\d\d)?(?:[.,]\d{{1,9}})?(?![\d:]){_HALF}{_ZONE}"
)
_SPOKEN_CLOCK = (
    r"(?:上午|下午|午前|午後|오전|오후)?\s?\d{1,2}\s?(?:[時时点點]|시)\s?(?:\d{1,2}\s?[分분])?(?:\s?\d{1,2}\s?[秒초])?"
    r"|(?<!\d)\d{1,2}\s?h\s?\d\d(?!\w)|(?<!\d)\d{1,2}(?:\.\d\d)? Uhr(?: \d{1,2})?|(?<!\d)\d{1,2} [ap]\.?m\.?(?!\w)"
)
_FORMS = (
    r"(?<![\d.])\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?![\d-])(?:[T ]\d{1,2}:?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?" + _ZONE + ")?",
    r"(?<!\d)(?:19|20)\d{6}T\d{6}Z?",
    r"(?<![\d.])\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}(?![\d.]*\d)",
    rf"(?:令和|平成|民國|民国)?\s?(?:\d{{1,4}}|[{_CJK}]{{1,4}})\s?[年년]\s?(?:\d{{1,2}}|[{_CJK}]{{1,3}})\s?[月월]"
    rf"(?:\s?(?:\d{{1,2}}|[{_CJK}]{{1,3}})\s?[日号일])?",
    rf"(?<!\d)(?:\d{{1,2}}|[{_CJK}]{{1,3}})\s?[月월]\s?(?:\d{{1,2}}|[{_CJK}]{{1,3}})\s?[日号일]",
    r"(?:星期|週|周|礼拜)[一二三四五六日天]|[月火水木金土日]曜日?|[월화수목금토일]요일",
    r"ngày \d{1,2}(?: tháng |/)\d{1,2}(?: năm |/)?\d{0,4}",
    rf"{_DAY}(?:\s*(?:st|nd|rd|th))?{_OF}{_MONTH}(?:{_OF}{_YEAR})?",
    rf"{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?",
    rf"{_MONTH}{_OF}{_YEAR}",
    _CLOCK,
    _SPOKEN_CLOCK,
    _WEEKDAY,
)
_PIECE = "(?:" + "|".join(f"(?:{form})" for form in _FORMS) + ")"
_BETWEEN = (
    r"(?:[\s,،、;(（\-–|]{0,3}"
    r"(?:(?:at|um|à|às|a las|alle|om|в|o|the|le|el|den|der|den|kl\.?|الساعة|को|में)\s)?[\s(]{0,2})"
)
DATE_TIME = re.compile(rf"{_PIECE}(?:{_BETWEEN}{_PIECE}){{0,5}}(?:[)）])?{_ZONE}", re.IGNORECASE)
"""A date, a time, or both with what stands between them."""

EPOCH = re.compile(r"(?<![\w.+-])1\d{9}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?(?![\w.]*\d)")
"""Seconds since 1970 from 2001 to 2033, or a smaller unit of them."""

WRITTEN_BY_TEMPLATES = re.compile(
    r"today(?:'s|’s)? date(?: is)?\s?:?|current date(?: is)?\s?:?|the current date is|knowledge cutoff"
    r"|cutting knowledge",
    re.IGNORECASE,
)
"""The words around the date that chat templates of known models write."""
