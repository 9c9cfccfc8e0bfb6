"""Pages as people see them, in Chromium: on a wide screen, on a narrow one, in the dark, read out, and printed.

`make browser` installs what these tests need. Where it is missing they are left out, and say so; with CI=true they fail.
"""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cobed.campaign.campaign import Campaign
from cobed.campaign.verdict import Plan, Rounds, Size
from cobed.report.campaign import write_report
from cobed.report.plan import write_plan
from cobed.report.printing import find_chromium

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("COBED_AXE", ROOT / ".venv" / "node_modules" / "axe-core" / "axe.min.js"))
# Where somebody can look at what the tests saw; git ignores it.
SHOTS = ROOT / "results" / "pages"
SCREENS = {"wide": (1_200, "light"), "narrow": (400, "light"), "dark": (1_200, "dark")}
MOST_BYTES = 2_000_000

SPEC = """name = "Which offer for whom"
[units]
id = "customer"
[context]
months = "numeric"
buys = "categorical"
new = "binary"
[action]
column = "offer"
options = ["nothing", "mail", "voucher"]
[outcome]
column = "ordered"
likelihood = "bernoulli"
[model]
family = "linear"
[value]
outcome = 30.0
currency = "EUR"
current = "nothing"
cost = { mail = 0.4, voucher = { share = 0.2 } }
[budget]
at_most = { voucher = 60 }
"""


def customers(number: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "customer": [f"c{i}" for i in range(number)],
            "months": rng.integers(1, 19, number),
            "buys": rng.choice(["web", "store"], number),
            "new": rng.integers(0, 2, number),
        }
    )


def made_report(folder: Path) -> Path:
    """The report of a campaign with a history, a budget and a policy."""
    (folder / "campaign.toml").write_text(SPEC)
    campaign, rng = Campaign.create(folder / "campaign.toml"), np.random.default_rng(1)
    history = customers(240)
    history["offer"] = np.resize(["nothing", "mail", "voucher"], 240)
    chance = 0.1 + 0.3 * ((history["offer"] == "voucher") & (history["months"] > 9)) + 0.2 * (
        (history["offer"] == "mail") & (history["buys"] == "web")
    )  # fmt: skip
    campaign.add_outcomes(history.assign(ordered=(rng.random(240) < chance).astype(int)))
    campaign.deploy(customers(300))
    path = write_report(campaign, folder / "report.html")
    campaign.close()
    return path


def made_plan(folder: Path) -> Path:
    """The page of a plan, its numbers made up."""
    from cobed.campaign.spec import parse_spec

    sizes = tuple(
        Size(
            units,
            (1 / units, 0.001),
            (1.4 / units, 0.001),
            (-0.4 / units, 0.0005),
            rounds=(Rounds(2, (-0.001, 0.0005), 100),),
        )
        for units in (50, 100, 200)
    )
    plan = Plan((0.1, 0.005), sizes, 500, (0.2, 0.01), "net EUR")
    return write_plan(parse_spec(SPEC), plan, folder / "plan.html")


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {"report": made_report(folder), "plan": made_plan(folder)}


def require(present: bool, what: str) -> None:
    """Leave the test out where the machine lacks something; fail where all of it should be there."""
    if present:
        return
    sentence = f"{what} is missing, so pages were not looked at in a browser. Install it: make browser"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    require(sync_playwright is not None, "The Python package playwright")
    program = find_chromium()
    require(program is not None, "Chromium")
    assert sync_playwright is not None
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


def opened(browser, path: Path, screen: str):
    """A tab with the page, and everything that it complained of or asked a network for."""
    width, scheme = SCREENS[screen]
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    told: list[str] = []
    tab.on("console", lambda message: told.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: told.append(str(error)))
    tab.on("request", lambda request: told.append(request.url) if not request.url.startswith("file:") else None)
    tab.goto(path.as_uri())
    return tab, told


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["report", "plan"])
def test_a_page_fits_the_screen_asks_for_nothing_and_complains_of_nothing(browser, pages, name, screen):
    tab, told = opened(browser, pages[name], screen)
    SHOTS.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=SHOTS / f"{name}-{screen}.png", full_page=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen][0]
    # Of each figure the drawing that is made for this width, and no other.
    hidden = "narrow" if screen != "narrow" else "wide"
    assert not tab.locator(f"svg.{hidden}-only:visible").count()
    assert tab.locator("svg:visible").count()
    assert told == []
    tab.context.close()


@pytest.mark.parametrize("screen", ["narrow", "dark"])
@pytest.mark.parametrize("name", ["report", "plan"])
def test_a_page_can_be_read_by_everybody(browser, pages, name, screen):
    """Contrast, landmarks, headings, names of tables and pictures, by the rules of axe-core."""
    require(AXE.exists(), "axe-core")
    tab, _ = opened(browser, pages[name], screen)
    tab.evaluate(AXE.read_text(encoding="utf-8"))
    found = tab.evaluate("axe.run()")
    assert {rule["id"] for rule in found["passes"]} >= {"color-contrast", "landmark-one-main", "region"}
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]] == []
    tab.context.close()


def test_a_report_is_printed_on_two_pages_and_its_appendix_after_them(browser, pages):
    tab, _ = opened(browser, pages["report"], "wide")
    num_pages = []
    for style in (":root { }", ".appendix { display: none }"):
        tab.add_style_tag(content=style)
        num_pages.append(len(re.findall(rb"/Type\s*/Page\b(?!s)", tab.pdf(prefer_css_page_size=True))))
    whole, main = num_pages
    assert main <= 2
    assert whole > main
    tab.context.close()


def test_a_page_is_small(pages):
    for path in pages.values():
        assert path.stat().st_size < MOST_BYTES / 10
        assert "<script" not in path.read_text()
