"""Figures as SVG, pictures of rules, and the other formats of a page."""

import json

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from cobed.decide.tree import Leaf, Question, Split, Tree
from cobed.errors import ModelError, StorageError
from cobed.report.drawing import draw
from cobed.report.page import Page
from cobed.report.rules import Rules


def test_bars_points_and_lines_lie_where_their_values_are():
    figure = go.Figure()
    figure.add_bar(x=["a", "b"], y=[1.0, 2.0], name="bars")
    figure.add_scatter(x=["a", "b"], y=[1.0, 2.0], name="line", error_y={"type": "data", "array": [0.1, 0.1]})
    drawn = draw(figure)
    assert drawn.count("<svg") == 2  # for wide screens, and for narrow ones
    assert drawn.count("<rect") == 4
    assert drawn.count("<polyline") == 2
    heights = [float(part.split('"')[0]) for part in drawn.split(' height="')[1:] if 'fill="var(--c0)"' in part[:40]]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert 'aria-label="Figure. bars: a 1, b 2; line: a 1, b 2."' in drawn


def test_panels_have_their_names_and_maps_their_colours():
    figure = make_subplots(rows=1, cols=2, subplot_titles=["first <i>", "second"])
    figure.add_heatmap(z=np.eye(3), x=[1, 2, 3], y=[1, 2, 3], coloraxis="coloraxis", row=1, col=1)
    figure.add_scatter(x=[1, 2], y=["p", "q"], mode="markers", row=1, col=2)
    drawn = draw(figure.update_layout(coloraxis={"colorscale": "RdBu", "cmin": 0, "cmax": 1}), alt="Two panels")
    assert "first &lt;i&gt;" in drawn
    assert drawn.count('fill="rgb(5,48,97)"') == 3  # the ones, in the last colour of the scale
    assert drawn.count('aria-label="Two panels"') == 1


def test_points_of_several_traces_stand_beside_each_other_where_they_are_grouped():
    def heights(**layout):
        figure = go.Figure(layout=layout)
        for name in ("one", "two"):
            figure.add_scatter(x=[1.0], y=["group"], mode="markers", name=name)
        return {part.split('"')[1] for part in draw(figure).split(" cy=")[1:]}

    assert len(heights()) < len(heights(scattermode="group"))


def test_a_figure_of_another_kind_is_told():
    with pytest.raises(ModelError, match=r"draws the plotly traces scatter, bar, heatmap, and this figure has 'pie'"):
        Page("a").figure(go.Figure(go.Pie(values=[1, 2])))


TREE = Tree(
    Split(Question("months", at_most=9.0), Split(Question("buys", names=("<web>",)), Leaf(0), Leaf(1)), Leaf(1)),
    ("mail", "none"),
)


def test_rules_are_lists_within_lists():
    picture = Rules(TREE, ["3 units", "4 units", "5 units"])
    drawn = picture.html()
    assert drawn.count("<ul") == 3
    assert drawn.count('class="leaf"') == 3
    assert "buys is &lt;web&gt;?" in drawn
    assert drawn.index("3 units") < drawn.index("4 units") < drawn.index("5 units")
    assert picture.markdown().splitlines()[:3] == [
        "- months is at most 9?",
        "  - yes: buys is <web>?",
        "    - yes: **mail** (3 units)",
    ]


def full_page() -> Page:
    page = Page("A | B", "of today")
    page.heading("Rows")
    page.verdict("look", "Read on.")
    page.table(pd.DataFrame({"who": ["x|y"], "value": [None]}), "A caption")
    page.add(Rules(TREE, ["", "", ""]))
    page.figure(go.Figure(go.Scatter(x=[1], y=[2], name="p")))
    page.begin_appendix()
    page.heading("Words")
    page.terms({"Policy": "Who gets what."})
    page.items(["one", "two"])
    return page


def test_the_same_cards_are_written_as_markdown_and_json(tmp_path):
    said = full_page().write(tmp_path / "a.md", "md").read_text()
    for line in ("# A | B", "## Rows", "**Look.** Read on.", "| x\\|y |  |", "## Appendix", "### Words", "- one"):
        assert line in said, line
    document = json.loads(full_page().write(tmp_path / "a.json", "json").read_text())
    assert document["cards"][0]["verdict"] == "look"
    assert document["cards"][0]["blocks"][0]["table"]["rows"] == [["x|y", ""]]
    assert document["appendix"][0]["blocks"][0] == {"terms": {"Policy": "Who gets what."}}


def test_the_page_says_its_structure():
    said = full_page().html()
    for part in (
        "<main>",
        '<th scope="col">who</th>',
        '<th scope="row">x|y</th>',
        "<caption>A caption</caption>",
        '<html lang="en">',
    ):
        assert part in said, part
    assert 'Rows <span class="verdict look">Look</span>' in said


def test_without_chromium_a_pdf_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("COBED_CHROMIUM", "no-such-program")
    with pytest.raises(StorageError, match="A PDF is printed by Chromium or Chrome, and none was found"):
        full_page().write(tmp_path / "a.pdf", "pdf")
    assert not list(tmp_path.iterdir())


def test_a_pdf_is_printed_by_the_program_that_is_named(tmp_path, monkeypatch):
    program = tmp_path / "printer"
    program.write_text(
        '#!/bin/sh\nfor part; do case "$part" in --print-to-pdf=*) echo "%PDF" > "${part#--print-to-pdf=}";; esac; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("COBED_CHROMIUM", str(program))
    assert full_page().write(tmp_path / "a.pdf", "pdf").read_bytes() == b"%PDF\n"
    program.write_text("#!/bin/sh\necho it broke >&2; exit 1\n")
    with pytest.raises(StorageError, match="could not print the page: it broke"):
        full_page().write(tmp_path / "b.pdf", "pdf")
