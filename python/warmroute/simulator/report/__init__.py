"""A comparison for people: rows and columns, a verdict in words, and a page with plots that works offline."""

from warmroute.simulator.report.page import page
from warmroute.simulator.report.rows import COLUMNS, Column, Row, best, rows
from warmroute.simulator.report.verdict import verdict

__all__ = ["COLUMNS", "Column", "Row", "best", "page", "rows", "verdict"]
