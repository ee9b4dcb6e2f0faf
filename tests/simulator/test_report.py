"""The page, the rows and the verdict of a comparison."""

import copy
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from simulator.made_workloads import Shared
from warmroute.simulator.comparison import Question, compare
from warmroute.simulator.report import COLUMNS, best, page, rows, verdict

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Elements(HTMLParser):
    """All elements with their attributes; fails where tags do not match. `texts`: what stands in each, by tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.found if found == tag]

    def text(self, tag: str) -> str:
        return " ".join(data for found, data in self.texts if found == tag)


def parsed(html: str) -> Elements:
    elements = Elements()
    elements.feed(html)
    elements.close()
    assert elements.open == []
    return elements


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    question = Question(Shared(), ("random", "round-robin", "warmroute"), (1, 2), command="warmroute simulate --x")
    return compare(question, jobs=1)


def with_summary(result: dict[str, Any], **values: Mapping[str, float | None]) -> dict[str, Any]:
    """The comparison with other figures, by policy (`_` for `-`)."""
    changed = copy.deepcopy(result)
    for policy, figures in values.items():
        changed["policies"][policy.replace("_", "-")]["summary"].update(figures)
    return changed


def test_the_page_is_whole_and_has_every_policys_lines(compared: dict[str, Any]) -> None:
    elements = parsed(page(compared))
    scripts = [data for tag, data in elements.texts if tag == "script"]
    data = json.loads(scripts[0])
    assert data["policies"] == ["random", "round-robin", "warmroute"]
    plots = {plot["key"]: plot for plot in data["plots"]}
    assert set(plots) == {"ttft", "ttft-time", "cached-time", "queue", "load-0", "load-1", "load-2"}
    for position, name in enumerate(data["policies"]):
        run = compared["policies"][name]["runs"][0]
        assert plots["ttft"]["lines"][position]["y"] == run["series"]["ttft_s"]
        assert [line["y"] for line in plots[f"load-{position}"]["lines"]] == run["series"]["load"]["workers"]
    assert len({plots[f"load-{position}"]["most"] for position in range(3)}) == 1  # one scale for all
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {f"plot-{key}" for key in plots} <= set(ids)


def test_the_page_tells_in_words_and_tables_what_it_draws(compared: dict[str, Any]) -> None:
    elements = parsed(page(compared))
    drawn = [div for div in elements.of("div") if div.get("class") == "plot"]
    assert all(div["role"] == "img" and div["aria-label"] and div["tabindex"] == "0" for div in drawn)
    assert len(elements.of("figure")) == len(elements.of("details")) == len(drawn)
    assert verdict(compared) in page(compared).replace("&#39;", "'")
    assert "warmroute simulate --x" in elements.text("code")
    environment = elements.text("dd")
    assert all(value in environment for value in compared["environment"].values())
    assert len(elements.of("input")) == 3
    assert [html["lang"] for html in elements.of("html")] == ["en"]


def test_the_page_asks_for_nothing(compared: dict[str, Any]) -> None:
    html = page(compared)
    elements = parsed(html)
    for tag, attributes in elements.found:
        assert tag not in {"link", "img", "iframe", "base", "object", "embed"}
        assert not {"src", "href", "srcset", "action", "data", "poster"} & attributes.keys()
    policy = next(meta["content"] for meta in elements.of("meta") if meta.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    styles, scripts = elements.text("style"), elements.text("script")
    assert not re.search(r"url\(|@import", styles)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(|sendBeacon|importScripts", scripts)
    # What is left is where the plots' library comes from, in its comment.
    assert re.findall(r"https?://\S+", styles + scripts) == ["https://github.com/leeoniya/uPlot"]
    assert "Permission is hereby granted" in html


def test_names_from_outside_stay_text(compared: dict[str, Any]) -> None:
    evil = "</script><script>alert(1)</script>\u2028<img src=x onerror=alert(2)>&\"'"
    changed = copy.deepcopy(compared)
    changed["policies"] = {evil: changed["policies"]["random"], "{{ 7 * 7 }}": changed["policies"]["warmroute"]}
    changed["policies"][evil]["about"] = changed["policies"][evil]["source"] = evil
    changed["workload"]["name"] = changed["workload"]["about"] = changed["command"] = evil
    html = page(changed)
    elements = parsed(html)
    assert len(elements.of("script")) == 3
    assert not elements.of("img")
    data = json.loads(next(data for tag, data in elements.texts if tag == "script"))
    assert data["policies"] == [evil, "{{ 7 * 7 }}"]
    assert "alert(1)</script>" not in html


def test_equal_comparisons_give_equal_pages(compared: dict[str, Any]) -> None:
    assert page(compared) == page(json.loads(json.dumps(compared)))


def test_stages_get_plots_and_tables_where_there_are_several(compared: dict[str, Any]) -> None:
    changed = copy.deepcopy(compared)
    for policy in changed["policies"].values():
        for run in policy["runs"]:
            run["stages"].append(run["stages"][1] | {"name": "60/s", "ttft_p90_s": 123.4})
    elements = parsed(page(changed))
    data = json.loads(next(data for tag, data in elements.texts if tag == "script"))
    by_stage = next(plot for plot in data["plots"] if plot["key"] == "ttft_p90_s")
    assert by_stage["names"] == ["play", "60/s"]
    assert [line["y"][1] for line in by_stage["lines"]] == [123.4] * 3
    assert "TTFT p90, s" in elements.text("caption")
    assert "TTFT p90, s" not in parsed(page(compared)).text("caption")


def test_few_of_many_policies_are_shown_at_first(compared: dict[str, Any]) -> None:
    changed = copy.deepcopy(compared)
    changed["policies"] = {f"p{number}": copy.deepcopy(compared["policies"]["random"]) for number in range(20)}
    for number in range(20):
        changed["policies"][f"p{number}"]["summary"]["ttft_mean_s"] = 20.0 - number
    boxes = parsed(page(changed)).of("input")
    assert [number for number, box in enumerate(boxes) if "checked" in box] == [14, 15, 16, 17, 18, 19]


def test_a_page_of_nothing_but_failures(compared: dict[str, Any]) -> None:
    changed = copy.deepcopy(compared)
    for policy in changed["policies"].values():
        for figures in [policy["summary"], *(run["summary"] for run in policy["runs"])]:
            figures.update({name: None for name in figures if name.startswith("ttft")} | {"cached_token_share": None})
        policy["distance"] = dict.fromkeys(policy["distance"])
        for run in policy["runs"]:
            run["series"]["ttft_s"] = [None] * 200
    assert "nothing to compare" in page(changed)


def test_rows_are_in_the_order_of_their_means(compared: dict[str, Any]) -> None:
    changed = with_summary(
        compared, random={"ttft_mean_s": 3.0}, round_robin={"ttft_mean_s": None}, warmroute={"ttft_mean_s": 1.0}
    )
    assert [row.label for row in rows(changed)] == ["warmroute", "random", "round-robin"]


def test_a_tuned_row_is_there_where_it_is_not_the_default(compared: dict[str, Any]) -> None:
    changed = copy.deepcopy(compared)
    policy = changed["policies"]["warmroute"]
    policy["knob"] = {"name": "weight", "value": 1.0}
    policy["tuned"] = {"knob": {"name": "weight", "value": 1.0}, "tried": []} | {
        part: policy[part] for part in ("summary", "distance", "runs")
    }
    assert not any(row.is_tuned for row in rows(changed))
    policy["tuned"]["knob"]["value"] = 2.5
    assert [row.label for row in rows(changed) if row.is_tuned] == ["warmroute (weight 2.5)"]


def test_the_best_of_a_column_is_what_reads_best(compared: dict[str, Any]) -> None:
    columns = {column.heading: column for column in COLUMNS}
    changed = with_summary(
        compared,
        random={"ttft_mean_s": 0.5, "cached_token_share": 0.2, "failed": 0},
        round_robin={"ttft_mean_s": 0.25001, "cached_token_share": 0.9, "failed": 0},
        warmroute={"ttft_mean_s": 0.25, "cached_token_share": 0.5, "failed": 0},
    )
    found = rows(changed)
    assert [row.label for row in found] == ["warmroute", "round-robin", "random"]
    assert best(columns["TTFT mean"], found) == [0, 1]  # both read 0.250
    assert best(columns["cached"], found) == [1]
    assert best(columns["failed"], found) == []  # all alike


def verdict_of(result: dict[str, Any], bound: dict[str, float] | None = None, **warmroute: float) -> str:
    changed = with_summary(
        result,
        random={"ttft_mean_s": 9.0, "ttft_p90_s": 20.0, "cached_token_share": 0.3},
        round_robin={"ttft_mean_s": 4.0, "ttft_p90_s": 10.0, "cached_token_share": 0.4},
        warmroute={"ttft_mean_s": 1.0, "ttft_p90_s": 2.0, "cached_token_share": 0.8, "queue_mean": 0.0} | warmroute,
    )
    changed["bounds"].update({"ttft_mean_s": 0.5, "cached_token_share": 0.85} | (bound or {}))
    summary, bounds = changed["policies"]["warmroute"]["summary"], changed["bounds"]
    changed["policies"]["warmroute"]["distance"].update(
        ttft_mean_ratio=summary["ttft_mean_s"] / bounds["ttft_mean_s"],
        cached_share_of_bound=summary["cached_token_share"] / bounds["cached_token_share"],
    )
    return verdict(changed)


def test_the_verdict_says_who_wins_and_by_how_much(compared: dict[str, Any]) -> None:
    text = verdict_of(compared)
    assert text.startswith("warmroute gives the first token soonest: after 1.00 s on average, 2.00 s for nine of ten. ")
    assert (
        "Under round-robin it comes after 4.00 s, 4.00 times as long (5.00 times for nine of ten), with 40.0%" in text
    )
    assert "finds 80.0% of the prompt tokens in caches, of 85.0% that could be found" in text
    assert "2.00 times the shortest possible, 0.500 s" in text


@pytest.mark.parametrize(
    ("figures", "bound", "limit"),
    [
        ({"cached_token_share": 0.5}, {}, "limited by reuse: 41.2%"),
        ({"queue_mean": 2.5}, {}, "limited by capacity: 2.5 requests wait in an engine"),
        ({"cached_token_share": 0.5, "held_mean": 2.0}, {}, "let them go; and by capacity: 0.0 requests wait"),
        ({"ttft_mean_s": 0.6}, {}, "limited by the work itself"),
        ({}, {}, "limited by what else runs"),
        ({}, {"cached_token_share": 0.05}, "hardly repeats itself"),
    ],
)
def test_the_verdict_says_what_stands_in_the_way(
    compared: dict[str, Any], figures: dict[str, float], bound: dict[str, float], limit: str
) -> None:
    assert limit in verdict_of(compared, bound, **figures)


def test_the_verdict_names_failures_and_equals(compared: dict[str, Any]) -> None:
    alike = with_summary(
        compared,
        random={"ttft_mean_s": 1.0, "failed": 3},
        round_robin={"ttft_mean_s": 1.01, "failed": 0},
        warmroute={"ttft_mean_s": 5.0, "failed": 0},
    )
    assert verdict(alike).startswith("random and round-robin are alike within 3%: the first token comes after 1.00 s")
    assert "Requests failed: 3 under random." in verdict(alike)
    alike["policies"]["random"]["runs"][0]["failures"] = {"worker-died": 2, "queue-full": 1}
    assert "Requests failed: 3 under random (worker-died, queue-full)." in verdict(alike)
    many = copy.deepcopy(alike)
    many["policies"] = {f"p{number}": copy.deepcopy(alike["policies"]["random"]) for number in range(5)}
    many["policies"]["warmroute"] = copy.deepcopy(alike["policies"]["round-robin"])
    assert verdict(many).startswith("p0, p1, p2 and 3 more, warmroute among them, are alike")
    one_seed = alike | {"seeds": [1]}
    assert "One seed" in verdict(one_seed)
    assert "One seed" not in verdict(alike)
