"""The page: it asks for nothing, and what stands in a body is text in it."""

from doctor.requests_to_diagnose import RULES, asked, diagnosed
from warmroute.doctor import told
from warmroute.doctor.page import page


def test_a_page_tells_each_finding() -> None:
    report = told(diagnosed(asked(lambda number: f"<script>Date: 2026-03-{number + 1:02d}</script>\n{RULES}")))
    html = page(report, "a log")
    assert "date-time" in html
    assert "<mark>1</mark>" in html
    assert "<script" not in html
    assert "http" not in html.replace('http-equiv="Content-Security-Policy"', "")
    assert html == page(report, "a log")


def test_a_page_without_findings() -> None:
    assert "Nothing breaks a prefix" in page(told(diagnosed(asked(lambda _: RULES))), "a log")
