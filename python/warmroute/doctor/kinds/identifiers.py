"""Ids that a machine makes for one request, session or trace, and addresses that are signed."""

import re

UUID = re.compile(r"(?<![0-9A-Za-z])\{?[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\}?(?![0-9A-Za-z])")
ULID = re.compile(r"(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])")
"""Crockford's letters: all but I, L, O and U."""

TRACE_ID = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?![0-9a-f])"
    r"|(?:Root=)?1-[0-9a-f]{8}-[0-9a-f]{24}"
    r"|(?:trace|span|b3|traza|rastre|трассир|трейс|追踪|跟踪|链路|トレース|追跡|تتبع|ट्रेस|अनुरेखण|추적)[^\n]{0,24}?"
    r"(?<![0-9A-Za-z])[0-9a-f]{16,32}(?![0-9A-Za-z])"
    r"|(?<![0-9a-f])[0-9a-f]{32}-[0-9a-f]{16}(?:-[01d])?(?![0-9a-f])",
    re.IGNORECASE,
)
"""W3C's, Amazon's, B3's; a bare one only where the word stands in front."""

HEX_ID = re.compile(
    r"(?<![0-9A-Za-z])(?:0x)?(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,128}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-9A-Za-z]{1,12}[_-](?=[0-9A-Za-z]*\d)(?=\d*[A-Za-z])[0-9A-Za-z]{6,64}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Za-z]*\d)(?=\d*[A-Za-z])[0-9A-Za-z]{12,64}(?![0-9A-Za-z])",
    re.IGNORECASE,
)
"""Hexadecimal digits, or letters and digits of no word."""

URL = re.compile(r"https?://[^\s\"'<>)\]}，。、）]+", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])#?\d+(?![\w]|\.\d)")
PERSONAL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\+\d[\d ()/-]{6,18}\d")
"""Addresses of mail, and telephone numbers."""
