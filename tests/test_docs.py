"""The documentation: its code runs and prints what it shows, it builds without a warning, and nothing is left out."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from plr.generation import MECHANISMS
from plr.weighting import WEIGHTINGS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MODULES = [
    "plr",
    "plr.paper",
    "plr.paper.datasets",
    "plr.errors",
    "plr.generation",
    "plr.learners",
    "plr.losses",
    "plr.metrics",
    "plr.persistence",
    "plr.noise",
    "plr.priors",
    "plr.tables",
    "plr.learners.starts",
    "plr.torch",
    "plr.weighting",
]


def tool(name):
    """Import a module that only the site's build knows."""
    sys.path.insert(0, str(DOCS / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS / "tools"))


pages = tool("pages")
SLOW = {
    *(f"situations/{name}" for name in ("digits", "folding", "guesses", "joins", "units")),
    "guides/models",
    "start",
    "guides/search",
}


def as_param(page):
    """Name a page; those that fit several default models are for the full run."""
    name = page.relative_to(DOCS).with_suffix("").as_posix()
    return pytest.param(page, id=name, marks=[pytest.mark.slow] * (name in SLOW))


@pytest.fixture
def registries():
    """Pages add a mechanism and a weighting of their own; what they add is taken back."""
    kept = [(registry, dict(registry)) for registry in (MECHANISMS, WEIGHTINGS)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


@pytest.mark.parametrize("page", [*map(as_param, pages.all_pages())])
def test_code_on_a_page_prints_what_the_page_shows(page, registries):
    if page.stem == "imputation":
        pytest.importorskip("statsmodels", reason="The page shows regressions of statsmodels.")
    for block, printed in pages.run_page(page):
        if block.shown is not None:
            assert printed
            assert pages.alike(block.shown, printed), f"{page.name}, line {block.line} prints:\n{printed}"


def test_outputs_are_compared_by_words_and_roughly_by_numbers():
    assert pages.alike("right in 98% of 1,200 rows, 3.1 s", "right in 97% of 1,150 rows, 9.7 s")
    assert not pages.alike("right in 98%", "right in 40%")
    assert not pages.alike("right in 98%", "wrong in 98%")
    assert not pages.alike("1 2", "1 2 3")


def test_code_on_the_pages_fits_beside_the_navigation():
    width = tomllib.loads((DOCS / "ruff.toml").read_text(encoding="utf-8"))["line-length"]
    for page in DOCS.rglob("*.md"):
        for kind, code in re.findall(
            r"^```(\w+)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            longest = max(code.splitlines(), key=len, default="")
            assert kind == "text" or len(longest) <= width, f"{page.name}: {longest}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in DOCS.glob("notebooks/*.ipynb")))
def test_a_notebook_gives_what_it_shows(name):
    for package in ("nbclient", "ipykernel", "statsmodels"):
        pytest.importorskip(package)
    notebooks, path = tool("notebooks"), DOCS / "notebooks" / f"{name}.ipynb"
    assert notebooks.changes(path, notebooks.run(path)) == []


def test_a_notebook_that_gives_something_else_is_noticed():
    nbformat = pytest.importorskip("nbformat")
    notebooks, path = tool("notebooks"), DOCS / "notebooks" / "guesses.ipynb"
    new = nbformat.read(path, as_version=4)
    assert notebooks.changes(path, new) == []
    cell = next(cell for cell in new.cells if "prior_" in cell.source)
    cell.outputs[0].text = cell.outputs[0].text.replace("believable", "likely")
    assert notebooks.changes(path, new) == [cell.outputs[0].text]


def test_messages_in_troubleshooting_are_those_of_the_library():
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "plr").rglob("*.py"))
    # As it is read: texts that stand on several lines are one, and what is filled in differs.
    spoken = re.sub(r'"\s*\n\s*f?"', "", sources)
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^> (.*)$", page, re.MULTILINE)
    assert len(quoted) > 15
    for message in quoted:
        for part in message.split("…"):
            assert part.strip(" .,;:'") in spoken, f"No message of plr says {part!r}, of {message!r}"


def test_every_situation_says_when_it_cannot_work_and_how_to_check():
    for page in (DOCS / "situations").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert re.search(
            r"^## (When it cannot work|Which digit was it, and where can it not be told\?)$", text, re.MULTILINE
        )
        assert "plr.check(" in text
        assert ".identify()" in text


class Page(HTMLParser):
    """What a built page has in it: ids, links, and what the browser would fetch by itself."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids.add(attributes.get("id"))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif tag == "link" and attributes.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(attributes.get("href", ""))
        elif attributes.get("src"):
            self.fetched.append(attributes["src"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="The site needs the extra 'docs'.")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def site(built):
    return {path.relative_to(built).as_posix(): Page(path) for path in built.rglob("*.html")}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is on the path")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path)
        yield browser
        browser.close()


# One worker builds the site once for all of these.
needs_site = pytest.mark.xdist_group("site")


@needs_site
def test_pages_fetch_nothing_from_elsewhere(site):
    for name, page in site.items():
        assert not [address for address in page.fetched if re.match(r"(https?:)?//", address)], name
        assert not re.search(r"url\(['\"]?(https?:)?//", page.text), name


@needs_site
def test_nothing_is_left_to_fill_in_and_formulas_are_formulas(site):
    for name, page in site.items():
        assert "{{" not in page.text, name
        assert "$$" not in page.text, name
    assert site["methods.html"].text.count("<math") > 20


@needs_site
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(site, module):
    page = site[f"reference/{module.removeprefix('plr.')}.html"]
    for name in importlib.import_module(module).__all__:
        assert f"{module}.{name}" in page.ids, f"{module}.{name} is not in the reference; give it a docstring."


@needs_site
def test_every_verb_and_option_is_in_the_reference(site):
    text = site["reference/command_line.html"].text
    commands = tool("commands").verbs()
    assert {"benchmark", "check", "fit", "report"} <= set(commands)
    for verb, command in commands.items():
        assert f'id="plr-{verb}"' in text
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert f"<code>{parameter.opts[0]}</code>" in text


@needs_site
def test_quoted_figures_are_those_of_the_results(site):
    measured = tool("measured")
    text = site["choosing.html"].text
    line = next(one for one in measured._lines("identification/out-of-the-box.csv") if one["dataset"] == "concrete")
    assert f">{float(line['default']):.1f}</td>" in text
    for quote in ("below_published", "over_supervised"):
        arguments = ("published_pident",) if quote == "below_published" else ("fixed", "most")
        assert measured.QUOTES[quote](*arguments) in text
    speed = json.loads((ROOT / "results/speed/default.json").read_text(encoding="utf-8"))
    for figure in (*speed["seconds"].values(), *speed["over_lightgbm"].values()):
        assert f">{measured._figure(figure)}</td>" in site["guides/large.html"].text


def test_counts_of_agreement_are_those_of_the_readme():
    assert tool("measured").QUOTES["agreement"]() in (ROOT / "README.md").read_text(encoding="utf-8").replace(
        "of the ", "of "
    )


def test_quoted_curves_of_the_review_take_any_number_of_draws(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from benchmarks.harness import write_sheets
    from benchmarks.real.review_curve import Curves, draw_picture, make_sheet

    losses = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 30, 11))
    found = [Curves(name, *losses) for name in ("sources", "a join")]
    sheets = {"review": (make_sheet(found, 30), "Measured by a command.\nSeed 0.")}
    write_sheets(tmp_path / "real", sheets, {"review.svg": draw_picture(found)})
    measured = tool("measured")
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    means = losses[:, :, 0].mean(axis=1)
    assert f"| a join | {means[0]:.3f} / {means[1]:.3f} |" in measured.QUOTES["review_areas"]()
    assert measured.QUOTES["review_curves"]().startswith("<svg")


@needs_site
def test_pictures_are_drawn_and_described(site):
    for name, drawings in {"index": 2, "methods": 4, "uncertainty": 2, "guides/known": 1}.items():
        picture = re.search(r'<figure class="pictures">.*?</figure>', site[f"{name}.html"].text, re.DOTALL)[0]
        assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', picture)) == drawings
        assert "<figcaption>" in picture
        # They follow the page, dark or light.
        assert "currentColor" in picture
        assert "var(--md-typeset-a-color)" in picture


@needs_site
def test_notebooks_are_pages_with_their_outputs(site, built):
    for path in DOCS.glob("notebooks/*.ipynb"):
        text = site[f"notebooks/{path.stem}.html"].text
        assert "data:image/png;base64," in text
        assert f'href="{path.name}"' in text
        assert (built / "notebooks" / path.name).exists()


@needs_site
@pytest.mark.browser
@pytest.mark.parametrize("page", ["index.html", "guides/known.html"])
def test_search_works_from_a_folder(built, browser, page):
    tab = browser.new_page()
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((built / page).as_uri())
    tab.get_by_role("textbox", name="Search").click()
    tab.keyboard.type("tolerance interval")
    tab.locator(".md-search-result__link").first.wait_for()
    assert (
        tab.locator(".md-search-result__link").first.get_attribute("href").startswith((built / "uncertainty").as_uri())
    )
    assert all(address.startswith("file:") for address in asked)
    tab.close()


@needs_site
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit(built, browser, site, width):
    """No page has to be scrolled sideways, no code, and on a wide screen no table."""
    tab = browser.new_page(viewport={"width": width, "height": 800})
    wide = """() => [...document.querySelectorAll(".md-content pre > code, .md-content .md-typeset__scrollwrap")]
        .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.tagName)"""
    for name in site:
        tab.goto((built / name).as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
        assert set(tab.evaluate(wide)) <= ({"DIV"} if width < 1000 else set()), name
    tab.close()
