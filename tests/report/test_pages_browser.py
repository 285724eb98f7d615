"""The pages in Chromium: they work, are silent, ask for nothing, and fit a phone."""

import csv
import dataclasses
import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from plr.paper.report import write_report
from plr.report import write_model_page
from plr.report.importance import Importance
from plr.report.numbers import exact
from support.made_models import make_content
from support.made_stores import SMALL, fill, published_error

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("chromium")]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on the path")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return make_content(tmp_path_factory.mktemp("model") / "m.plr", with_truth=True, with_review=True)


@pytest.fixture(scope="module")
def queue(content):
    return content.review


@pytest.fixture(scope="module")
def address(content, tmp_path_factory):
    return write_model_page(content, tmp_path_factory.mktemp("page") / "page.html").as_uri()


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    datasets = ("abalone", "airfoil", "concrete", "housing", "cpu-act")
    protocol = dataclasses.replace(
        SMALL, datasets=datasets, models=("mlp",), methods=(*SMALL.methods, "Default"), trials=1, figure_fractions=()
    )
    return write_report(fill(folder / "store", protocol, published_error), folder / "out")[1][-1].as_uri()


@pytest.fixture(scope="module")
def wide(content, tmp_path_factory):
    """The page of a model with large numbers, and with many columns whose names are long."""
    rows = content.rows
    names = [f"{part}_of_the_measurement_station" for part in ("temperature", "humidity", "pressure", "wind", "rain")]
    columns = {
        "id": [f"AB-{number:05d}" for number in rows.number],
        "region": ["northern_highlands-of the"] * len(rows),
    }
    columns |= {name: [str(number) for number in rows.number] for name in names}
    many = tuple(f"{name}_{place}" for place in range(6) for name in names)
    large = {name: 1e6 * getattr(rows, name) for name in ("values", "prediction", "truth")}
    review = content.review
    about = {name: [f"{name} of {row}" for row in review.row] for name in ("first", *names)}
    page = dataclasses.replace(
        content,
        review=dataclasses.replace(review, columns=about),
        name="a-model-with-a-very-long-name-of-its-own.plr",
        rows=dataclasses.replace(rows, **large, columns=columns, naming=1),
        importance=Importance(many, tuple(1e6 / (1 + place) for place in range(len(many))), 100),
    )
    return write_model_page(page, tmp_path_factory.mktemp("wide") / "page.html").as_uri()


@pytest.fixture
def visit(browser, address):
    """Open a page under some conditions; at the end, it has said nothing and asked for nothing but itself."""
    contexts, said, asked, opened = [], [], [], set()

    def visit(address=address, **conditions):
        context = browser.new_context(**conditions)
        context.set_default_timeout(120_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        opened.add(address)
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert said == []
    assert set(asked) == opened


def column(page, place):
    return page.locator(f"#rows-table tbody tr > :nth-child({place})").all_inner_texts()


def wait_until(page, words):
    from playwright.sync_api import expect

    expect(page.locator("#rows-count")).to_have_text(words)


def head(page, title):
    return page.locator("#rows-table th", has=page.get_by_role("button", name=title, exact=True))


def test_sorting(visit):
    page = visit()
    assert head(page, "Probability").get_attribute("aria-sort") == "ascending"
    shares = [float(text.split()[0].removesuffix("%")) for text in column(page, 5)]
    assert shares == sorted(shares)
    page.get_by_role("button", name="Row", exact=True).click()
    assert column(page, 1) == [str(number) for number in range(25)]
    assert head(page, "Row").get_attribute("aria-sort") == "ascending"
    assert head(page, "Probability").get_attribute("aria-sort") == "none"
    page.get_by_role("button", name="Row", exact=True).click()
    assert column(page, 1)[:2] == ["119", "118"]


PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["390", "1280"])
@pytest.mark.parametrize("which", ["address", "wide", "benchmark"])
def test_texts_of_pictures_are_not_cut(visit, request, which, size):
    page = visit(request.getfixturevalue(which), viewport=size)
    found = page.evaluate(
        """() => [...document.querySelectorAll("svg.chart")].filter((chart) => chart.checkVisibility()).map((chart) => {
          const frame = chart.getBoundingClientRect();
          const boxes = [...chart.querySelectorAll("text")].map((text) =>
            [text.textContent, text.getBoundingClientRect()]);
          const cut = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
            || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
          const over = boxes.flatMap(([words, one], place) => boxes.slice(place + 1).filter(([, other]) =>
            one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 4
            && other.top < one.bottom - 4).map(([others]) => `${words} over ${others}`));
          const small = boxes.some(([, box]) => box.height < 10);
          return { texts: boxes.length, small, cut: cut.map(([words]) => words), over };
        })"""
    )
    assert found
    assert all(chart["texts"] > 4 for chart in found)
    assert [chart["cut"] for chart in found] == [[]] * len(found)
    assert [chart["over"] for chart in found] == [[]] * len(found)
    assert not any(chart["small"] for chart in found)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["390", "1280"])
@pytest.mark.parametrize("which", ["address", "wide", "benchmark"])
def test_words_do_not_break_in_the_middle(visit, request, which, size):
    page = visit(request.getfixturevalue(which), viewport=size)
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    broken = page.evaluate(
        """() => {
          const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            const parent = node.parentElement;
            if (!parent.checkVisibility() || parent.closest("script, style, svg, pre")) continue;
            // A break is fine at spaces and behind punctuation, and in commands, which are copied.
            for (const word of node.textContent.matchAll(/[\\p{L}\\p{N}]+/gu)) {
              const range = document.createRange();
              range.setStart(node, word.index);
              range.setEnd(node, word.index + word[0].length);
              const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
              if (lines.size > 1) found.push(`${word[0]} in ${parent.tagName}`);
            }
          }
          return found;
        }"""
    )
    # What has no place to break and is longer than a line: the made-up markup, and what identifies the rows.
    assert [word for word in broken if len(word.split(" in ")[0]) <= 20] == []


def test_a_box_that_scrolls_says_so(visit, wide, benchmark):
    for address in (wide, benchmark):
        for size in (PHONE, DESK):
            page = visit(address, viewport=size)
            page.wait_for_timeout(100)
            found = page.evaluate(
                """() => [...document.querySelectorAll(".scroll")].filter((box) => box.checkVisibility()).map((box) =>
                  [box.scrollWidth > box.clientWidth + 1, box.previousElementSibling.checkVisibility(), box.tabIndex,
                   box.previousElementSibling.textContent])"""
            )
            assert len(found) >= 1
            assert all(scrolls == told for scrolls, told, _, _ in found)
            assert all(place == 0 and "scroll sideways" in words for _, _, place, words in found)
            if size is PHONE:
                assert any(scrolls for scrolls, *_ in found)


def test_a_box_that_fits_says_nothing(visit):
    page = visit(viewport={"width": 1600, "height": 900})
    page.wait_for_timeout(100)
    assert not page.locator(".hint:visible").count()


def test_candidates_are_there_as_text(visit, content):
    page = visit(viewport=PHONE)
    page.get_by_role("button", name="Row", exact=True).click()
    cells = page.locator("#rows-table .drawn").all_inner_texts()
    rows = content.rows
    for row in range(25):
        places = range(rows.offsets[row], rows.offsets[row + 1])
        assert all(f"{exact(rows.values[place])} (" in cells[row] for place in places)


@pytest.mark.parametrize("which", ["address", "wide"])
def test_the_script_writes_what_the_page_came_with(visit, request, which):
    script = """() => [...document.querySelectorAll("#rows-table tbody tr")].map((row) =>
      [...row.querySelectorAll("td:not(.drawn)")].map((cell) => cell.textContent.trim().replace(/\\s+/g, " ")))"""
    address = request.getfixturevalue(which)
    came, drawn = (visit(address, java_script_enabled=scripted).evaluate(script) for scripted in (False, True))
    assert len(came) == 25
    assert came == drawn


def test_other_candidates_and_columns_are_shown_on_demand(visit, wide):
    page = visit(wide, viewport=PHONE)
    heads = page.locator("#rows-table thead th:visible")
    assert heads.count() == 9
    page.get_by_label("Show 4 more columns").press("Space")
    assert heads.count() == 13
    page.get_by_label("Show 4 more columns").press("Space")
    assert heads.count() == 9
    others = page.locator("#importance details")
    assert not others.locator("table").is_visible()
    others.locator("summary").press("Enter")
    assert others.locator("tbody tr").count() == 10
    assert others.locator("table").is_visible()


def read_download(page, button):
    with page.expect_download() as waiting:
        button.press("Enter")
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    return waiting.value.suggested_filename, list(csv.DictReader(io.StringIO(text)))


def test_rows_that_are_shown_are_exported(visit, content):
    page, rows = visit(), content.rows
    page.get_by_label("Show rows that are").select_option("settled")
    page.get_by_role("button", name="Row", exact=True).click()
    shown = column(page, 1)
    name, found = read_download(page, page.get_by_role("button", name="Download these rows as CSV"))
    assert name == "rows.csv"
    # All pages of them, in their order.
    assert [line["row"] for line in found][:25] == shown
    assert [int(line["row"]) for line in found] == np.flatnonzero((rows.top >= 0.95) & rows.several).tolist()
    for line in found:
        row = int(line["row"])
        part = slice(rows.offsets[row], rows.offsets[row + 1])
        assert [float(value) for value in line["candidates"].split("|")] == rows.values[part].tolist()
        assert sum(float(share) for share in line["probabilities"].split("|")) == pytest.approx(1.0, abs=0.01)
        assert float(line["value"]) == rows.values[rows.likeliest[row]]
        assert float(line["truth"]) == rows.truth[row]
        assert float(line["lower"]) < float(line["prediction"]) < float(line["upper"])
        assert line["state"] == "settled"
        assert line["size"] == rows.columns["size"][row]
    page.get_by_label("Search").fill("house007")
    wait_until(page, "Rows 1 to 1 of 1 found, 120 in all.")
    assert [line["row"] for line in read_download(page, page.locator("#rows-download"))[1]] == ["7"]


def test_figures_are_exported(visit, content):
    page = visit()
    name, found = read_download(page, page.get_by_role("button", name="Download importance.csv"))
    assert name == "importance.csv"
    assert [line["column"] for line in found] == list(content.importance.names)
    assert [float(line["change"]) for line in found] == list(content.importance.changes)
    figures = page.locator("#calibration details").first
    figures.locator("summary").press("Enter")
    name, found = read_download(page, figures.get_by_role("button", name="Download calibration.csv"))
    assert name == "calibration.csv"
    expected = content.facts["checks"]["reliability"]
    assert [float(line["standard error"]) for line in found] == [part["true_error"] for part in expected]
    assert [int(line["candidates"]) for line in found] == [part["candidates"] for part in expected]


def tab_to(page, selector, most=60):
    """Press Tab until such an element has the focus, and see that it shows that."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    pytest.fail(f"Tab does not reach {selector} within {most} steps")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["390", "1280"])
def test_a_walk_by_keyboard_alone(visit, wide, size, scheme, tmp_path):
    """From the verdict to an answer, a row, its columns, a file and all features; pytest's folder keeps pictures."""
    page = visit(wide, viewport=size, color_scheme=scheme, reduced_motion="reduce")
    assert page.locator("#summary .verdict").inner_text().startswith("Fine: a model can learn from this data.")
    page.screenshot(path=tmp_path / "top.png")
    tab_to(page, ".figures summary")
    page.keyboard.press("Enter")
    figures = page.locator("#calibration .figures").first
    frame, box = (part.bounding_box() for part in (figures, figures.locator(".scroll")))
    assert box["width"] <= frame["width"]
    page.screenshot(path=tmp_path / "calibration.png")
    tab_to(page, "#review-card summary")
    page.keyboard.press("Enter")
    others = page.locator("#review-others dt")
    assert others.all_inner_texts() == [f"{name}_of_the_measurement_station" for name in ("pressure", "wind", "rain")]
    tab_to(page, "#review-choices button", 1)
    page.keyboard.press("1")
    assert page.locator("#review-others").is_visible()
    assert page.locator("#review-count").inner_text() == "1 of 50 answered."
    page.screenshot(path=tmp_path / "review.png")
    tab_to(page, "#rows-search")
    page.keyboard.type("AB-00077")
    wait_until(page, "Rows 1 to 1 of 1 found, 120 in all.")
    tab_to(page, "#rows-more", 2)
    page.keyboard.press("Space")
    assert page.locator("#rows-table thead th:visible").count() == 13
    tab_to(page, "#rows-download", 1)
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    assert "AB-00077" in Path(waiting.value.path()).read_text(encoding="utf-8")
    tab_to(page, ".scroll", 1)
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(500)
    assert page.locator("#rows .scroll").evaluate("(box) => box.scrollLeft") > 0
    tab_to(page, "[data-sort=number]", 1)
    page.keyboard.press("Enter")
    assert head(page, "Row").get_attribute("aria-sort") == "ascending"
    page.screenshot(path=tmp_path / "rows.png")
    tab_to(page, "#importance summary")
    page.keyboard.press("Enter")
    assert page.locator("#importance details table").is_visible()
    page.screenshot(path=tmp_path / "importance.png")
    # Whatever was opened, the page is no wider than the screen.
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["390", "1280"])
def test_a_walk_through_the_benchmark_by_keyboard_alone(visit, benchmark, size, scheme, tmp_path):
    page = visit(benchmark, viewport=size, color_scheme=scheme, reduced_motion="reduce")
    tab_to(page, "#rule")
    page.keyboard.press("ArrowDown")
    assert page.locator("#rule").input_value() != "last+truth"
    chart = page.locator("#ranks svg.chart:visible")
    assert chart.count() == 1
    assert "critical difference" in chart.text_content()
    assert "Default" in chart.text_content()
    tab_to(page, "a[href='ranks.csv']")
    page.screenshot(path=tmp_path / "ranks.png")
    page.keyboard.press("Control+Home")
    page.reload()
    tab_to(page, ".skip", 1)
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#results"
    tab_to(page, "a[href='table2.csv']", 1)
    file = page.evaluate("document.activeElement.href")
    assert Path(file.removeprefix("file://")).read_text(encoding="utf-8").startswith("dataset,model,method")
    page.screenshot(path=tmp_path / "results.png")


def test_searching_and_choosing(visit):
    page = visit()
    page.get_by_label("Search").fill("HOUSE077")
    wait_until(page, "Rows 1 to 1 of 1 found, 120 in all.")
    assert column(page, 1) == ["77"]
    page.get_by_label("Search").fill("nobody")
    wait_until(page, "No row matches.")
    page.get_by_label("Search").fill("")
    page.get_by_label("Show rows that are").select_option("settled")
    assert {text.split()[1] for text in column(page, 5)} == {"settled"}


def test_paging(visit):
    page = visit()
    assert page.get_by_role("button", name="Previous page").is_disabled()
    first = column(page, 1)
    page.get_by_role("button", name="Next page").click()
    assert page.locator("#rows-page").inner_text() == "Page 2 of 5"
    assert not set(first) & set(column(page, 1))
    for _ in range(3):
        page.get_by_role("button", name="Next page").click()
    assert len(column(page, 1)) == 20
    assert page.get_by_role("button", name="Next page").is_disabled()


def test_each_row_has_its_candidates_drawn(visit):
    page = visit()
    page.get_by_role("button", name="Row", exact=True).click()
    assert [page.locator("#rows-table tbody tr").nth(row).locator("circle").count() for row in range(4)] == [1, 2, 3, 1]
    assert page.locator("#rows-table .strip .chosen").count() == 25


def test_the_script_draws_what_the_page_came_with(visit):
    """Bands of intervals, and the numbers beside predictions: both round these, halves perhaps differently."""
    script = """() => [...document.querySelectorAll("#rows-table tbody tr")].map((row) => [
      ...[...row.querySelectorAll("rect")].flatMap((band) => [band.getAttribute("x"), band.getAttribute("width")]),
      ...row.querySelector("td:nth-of-type(5)").textContent.replaceAll("−", "-").split(/ to | /),
    ].map(Number))"""
    came, drawn = (visit(java_script_enabled=scripted).evaluate(script) for scripted in (False, True))
    assert len(came) == len(drawn) == 25
    for one, other in zip(came, drawn, strict=True):
        # A band, and a prediction with two ends.
        assert len(one) >= 5
        assert one == pytest.approx(other, rel=2e-3, abs=1e-9)


def test_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if reached[-1] == "Row":
            break
    assert reached[0] == "rows-search"
    assert reached[-1] == "Row"
    width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(width.removesuffix("px")) >= 2
    page.keyboard.press("Enter")
    assert column(page, 1)[:3] == ["0", "1", "2"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fits_the_screen_in_both_colours(visit, scheme, width):
    page = visit(viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(",")))
    assert (brightness < 150) == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(visit, scheme):
    page = visit(color_scheme=scheme)
    poor = page.evaluate(
        """() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((part) => {
              part /= 255;
              return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = (node) => {
            for (; node; node = node.parentElement) {
              const colour = getComputedStyle(node).backgroundColor;
              if (!/, 0\\)$/.test(colour)) return colour;
            }
          };
          const found = [];
          for (const node of document.querySelectorAll("p, a, li, td, th, small, dt, dd, figcaption, text, button")) {
            if (!node.textContent.trim() || node.disabled) continue;
            const style = getComputedStyle(node);
            const colour = node instanceof SVGElement ? style.fill : style.color;
            const [low, high] = [light(colour), light(ground(node))].sort((a, b) => a - b);
            const contrast = (high + 0.05) / (low + 0.05);
            if (contrast < 4.5) found.push(`${node.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
          }
          return found;
        }"""
    )
    assert poor == []


def choices(page):
    return page.locator("#review-choices button")


def title(page):
    return page.locator("#review-title").inner_text()


def kept(page):
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV", exact=True).click()
    assert waiting.value.suggested_filename == "review.csv"
    return list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))


def test_rows_worth_checking_are_answered_by_clicks(visit, queue):
    page = visit()
    download = page.get_by_role("button", name="Download CSV")
    assert download.is_disabled()
    assert page.locator("#review-count").inner_text() == "0 of 50 answered."
    assert title(page) == f"Row {queue.row[0]} (1 of 50)"
    choices(page).nth(1).click()
    assert title(page) == f"Row {queue.row[1]} (2 of 50)"
    page.get_by_role("button", name="None of these").click()
    page.get_by_role("button", name="Cannot tell").click()
    assert page.locator("#review-count").inner_text() == "3 of 50 answered."
    found = kept(page)
    assert [int(line["row"]) for line in found] == queue.row[:3]
    assert float(found[0]["value"]) == queue.candidates[0][1]["value"]
    assert [line["answer"] for line in found] == ["", "none of these", "cannot tell"]
    assert [line["value"] for line in found[1:]] == ["", ""]
    assert [line["chosen"] for line in found] == queue.chosen[:3]
    probability = [float(line["probability"]) for line in found]
    assert probability == pytest.approx(queue.first(3).probability)
    assert probability != pytest.approx(queue.probability[:3])


def test_rows_worth_checking_are_answered_by_keys(visit, queue):
    page = visit()
    choices(page).first.focus()
    for key in ("2", "n", "?", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert title(page) == f"Row {queue.row[1]} (2 of 50)"
    pressed = page.locator("#review-queue [aria-pressed=true]")
    assert pressed.all_inner_texts() == ["None of these"]
    page.keyboard.press("n")
    assert pressed.count() == 0
    assert title(page) == f"Row {queue.row[1]} (2 of 50)"
    assert page.locator("#review-count").inner_text() == "2 of 50 answered."
    page.keyboard.press("ArrowRight")
    page.keyboard.press("9")
    assert page.locator("#review-count").inner_text() == "2 of 50 answered."
    page.get_by_label("Search").press("n")
    assert page.locator("#review-count").inner_text() == "2 of 50 answered."


def test_answers_are_kept_in_the_browser_until_they_are_forgotten(visit, queue):
    page = visit()
    choices(page).first.click()
    page.get_by_role("button", name="Cannot tell").click()
    page.reload()
    assert page.locator("#review-count").inner_text() == "2 of 50 answered."
    assert title(page) == f"Row {queue.row[2]} (3 of 50)"
    assert len(kept(page)) == 2
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Forget all answers").click()
    assert page.locator("#review-count").inner_text() == "0 of 50 answered."
    assert title(page) == f"Row {queue.row[0]} (1 of 50)"
    page.evaluate("for (const key of Object.keys(localStorage)) localStorage.setItem(key, '[[0,99],[77,0],3]')")
    page.reload()
    assert page.locator("#review-count").inner_text() == "0 of 50 answered."


def test_a_whole_row_to_check_fits_a_phone(visit):
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    card = page.locator("#review-card").bounding_box()
    assert card["x"] >= 0
    assert card["x"] + card["width"] <= 390
    assert min(choice.bounding_box()["height"] for choice in choices(page).all()) >= 24


def test_without_script_there_are_pictures_and_the_first_rows(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("#rows-table tbody tr").count() == 25
    assert page.locator(".chart").count() >= 5
    assert not page.locator(".controls").is_visible()
    assert page.locator("#review-list li").count() == 50
    assert not page.locator("#review-queue").is_visible()
    assert page.locator("#rows-count").inner_text() == "The 25 least certain of 120 rows."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_benchmark_shows_the_rule_that_is_chosen(visit, benchmark, scheme):
    page = visit(benchmark, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for rule in ("truth", "last"):
        page.get_by_role("combobox", name="Selection rule").select_option(rule)
        shown = page.locator(".by-rule:visible")
        assert shown.count() > 3
        assert {part.get_attribute("data-rule") for part in shown.all()} == {rule}
    assert page.locator(".picture svg").first.is_visible()
