"""The page and the files beside it, from stores made by hand."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from plr.atomic_file import write_files
from plr.errors import ParameterError, StoreError
from plr.paper import PRESETS, Store, expand
from plr.paper.agreement import read_notes
from plr.paper.protocol import DataFile
from plr.paper.report import gather, render_report, write_report
from plr.paper.selection import DISTINCT_SELECTIONS
from support.html_pages import check_policy
from support.made_stores import SMALL, fill, published_error

# One worker writes the report once for all of these.
pytestmark = pytest.mark.xdist_group("report")

VOID = {"br", "meta", "input", "path", "use", "circle"}


class Checker(HTMLParser):
    """Checks that elements nest and notes ids, classes and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses, self.tags = [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [value for name, value in attributes if name in ("href", "src", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def read(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def report(small_store, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "new"
    content, paths = write_report(small_store, out)
    return content, paths, (out / "index.html").read_text(encoding="utf-8")


def page_without_pictures(store, selection=None, notes=None):
    with Store.open(store) as opened:
        return render_report(gather(opened, selection, notes=notes), [])


def test_every_file_is_written_and_nothing_else(report):
    _, paths, _ = report
    names = {path.name for path in paths}
    assert paths[-1].name == "index.html"
    assert names == {path.name for path in paths[0].parent.iterdir()}
    for stem in ("table1", "table2", "table3"):
        assert {f"{stem}.md", f"{stem}.tex", f"{stem}.csv"} <= names
    for stem in ("figure1", "sizes-mlp", "sizes-linear"):
        assert {f"{stem}.svg", f"{stem}.png"} <= names
    assert all(path.stat().st_size for path in paths)


def test_page_is_well_formed_and_stands_alone(report):
    found = read(report[2])
    assert len(found.ids) == len(set(found.ids))
    inside = {address[1:] for address in found.addresses if address.startswith("#")}
    assert inside <= set(found.ids)
    # All else are files that were written with it.
    assert {address for address in found.addresses if address[1:] not in inside} <= {path.name for path in report[1]}
    assert "svg" in found.tags
    assert not re.search(r"@import|url\((?!#)", report[2])


def test_policy_admits_only_what_stands_in_the_page(report):
    check_policy(report[2])


def test_page_shows_what_was_run_escaped(report):
    page = report[2]
    assert "plr benchmark --out &lt;here&gt; &amp; &#39;there&#39;" in page
    for text in ("What was run", "numpy", "seed", "revision", "Table 1", "Table 2", "Table 3"):
        assert text in page


def test_results_come_before_settings(report):
    assert re.findall(r'<section id="(\w+)"', report[2]) == [
        *("summary", "ranks", "results", "times", "agreement", "figures", "table1", "run")
    ]


def test_tables_are_linked_as_files(report):
    found = read(report[2]).addresses
    for stem in ("table1", "table2", "table3"):
        assert {f"{stem}.csv", f"{stem}.tex"} <= set(found)
    assert {"ranks.csv", "times.csv"} <= set(found)


@pytest.mark.parametrize(("trials", "judged"), [(4, False), (5, True)])
def test_observations_are_judged_from_enough_trials(tmp_path, trials, judged):
    protocol = dataclasses.replace(
        SMALL, datasets=("concrete",), models=("mlp",), trials=trials, beta2s=(10.0,), figure_fractions=()
    )
    store = fill(tmp_path / "store", protocol, published_error)
    page = page_without_pictures(store)
    assert ('<section id="observations">' in page) == ("of the paper's observations hold" in page) == judged
    assert ("judged from 5 trials of every cell on; here there are 4." in page) != judged


def test_one_cell_that_is_not_done_is_enough_to_judge_nothing(tmp_path):
    protocol = dataclasses.replace(
        SMALL, datasets=("concrete",), models=("mlp",), trials=5, beta2s=(10.0,), figure_fractions=()
    )
    last = expand(protocol)[-1]
    with Store.open(fill(tmp_path / "store", protocol, published_error, skip={last})) as store:
        assert gather(store).chosen.observations == []


def test_the_default_stands_beside_the_methods_of_every_model(tmp_path):
    protocol = dataclasses.replace(
        SMALL, methods=("Supervised", "IDent", "PIDent", "Default"), trials=5, beta2s=(10.0,), figure_fractions=()
    )

    def error_of(cell, place, rule):
        return 1.0 + 0.1 * cell.trial if cell.method == "Default" else published_error(cell, place, rule)

    with Store.open(fill(tmp_path / "store", protocol, error_of)) as store:
        content = gather(store)
    assert [table.model for table in content.chosen.tables] == ["mlp", "linear"]
    for table in content.chosen.tables:
        assert table.methods[-1] == "Default"
        assert "Default: this library's default" in table.caption
        assert all(row.entries["Default"].best for row in table.rows)
        assert all(row.entries["Default"].comparison is None for row in table.rows)
    assert all(ranking.methods[0] == "Default" for ranking in content.chosen.rankings)
    assert [(time.model, time.fits) for time in content.times if time.method == "Default"] == [("default", 20)]
    # Nothing was published of it.
    assert content.chosen.agreement.counted == 20
    page = render_report(content, [])
    assert ">default</td>" in page
    read(page)


def test_the_default_alone_has_a_table_of_its_own(tmp_path):
    protocol = dataclasses.replace(SMALL, methods=("Default",), trials=1, figure_fractions=())
    with Store.open(fill(tmp_path / "store", protocol, lambda *_: 1.0)) as store:
        content = gather(store)
    assert [(table.name, table.methods) for table in content.chosen.tables] == [("table-default", ("Default",))]
    assert content.chosen.rankings == []
    assert 'id="ranks"' not in render_report(content, [])


def test_page_shows_every_rule_and_only_the_chosen_without_script(report):
    content, _, page = report
    chosen = PRESETS["paper"].selection
    assert content.views[0].selection == chosen
    assert {view.selection for view in content.views} == set(DISTINCT_SELECTIONS)
    shown = re.findall(r'<div class="by-rule" data-rule="([^"]+)">', page)
    assert set(shown) == {chosen}
    hidden = re.findall(r'<div class="by-rule" data-rule="([^"]+)" hidden>', page)
    assert set(hidden) == set(DISTINCT_SELECTIONS) - {chosen}
    assert re.search(r'<div class="selector" hidden>', page)


def test_disagreeing_cells_are_listed(report):
    content, _, page = report
    evidence = next(view for view in content.views if view.selection == "evidence")
    assert evidence.agreement.agreeing == 0
    assert content.chosen.agreement.agreeing == content.chosen.agreement.counted == 28
    assert '<td class="words muted">–</td>' in page
    assert page.count("✗ higher than published") >= len(evidence.agreement.disagreeing())


def test_reasons_are_shown_where_they_are_given(small_store, report, tmp_path):
    file = tmp_path / "notes.csv"
    file.write_text("dataset,model,method,false_labels,note\nconcrete,mlp,IDent,4,a <b> reason\n")
    assert "a &lt;b&gt; reason" in page_without_pictures(small_store, notes=read_notes(file))
    assert {item.reason for view in report[0].views for item in view.agreement.comparisons} == {""}


@pytest.mark.parametrize("rule", ["truth", "last+truth"])
def test_settings_name_the_rule_that_is_shown(small_store, rule):
    page = page_without_pictures(small_store, rule)
    (settings,) = re.findall(r"<dt>selection</dt><dd>(.*?)</dd>", page)
    assert re.findall(r'data-rule="[^"]+">([^<]+)<', settings) == [rule]


def test_a_rule_can_be_asked_for(small_store):
    with Store.open(small_store) as store:
        assert gather(store, "truth").chosen.selection == "truth"
        assert gather(store, "last+loss").chosen.selection == "last"
        assert gather(store, per="cell").chosen.agreement.per == "cell"
        with pytest.raises(ParameterError, match="selection"):
            gather(store, "best")


def test_same_store_same_bytes(small_store, report, tmp_path):
    write_report(small_store, tmp_path)
    for path in report[1]:
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_names_of_the_users_own_are_escaped(tmp_path):
    file = DataFile("<b>mine</b>", "y", "0" * 64)
    protocol = dataclasses.replace(SMALL, datasets=(file.name,), files=(file,), sizes=(4,), trials=1, models=("mlp",))
    write_report(fill(tmp_path / "store", protocol, published_error), tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<b>mine" not in page
    assert "&lt;b&gt;mine&lt;/b&gt;" in page
    read(page)


def test_diverged_fits_and_missing_cells_do_not_stop_a_report(tmp_path):
    protocol = dataclasses.replace(SMALL, datasets=("concrete",), models=("mlp",), trials=2, figure_fractions=())

    def error_of(cell, place, rule):
        return None if cell.method == "IDent" else published_error(cell, place, rule)

    content, _ = write_report(fill(tmp_path / "store", protocol, error_of), tmp_path / "out")
    assert content.diverged == 4
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "failed to train" in page
    read(page)


def test_an_empty_store_says_so(tmp_path):
    with Store.create(tmp_path / "store", SMALL):
        pass
    with pytest.raises(StoreError, match="no finished cell"):
        write_report(tmp_path / "store", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failure_half_way_leaves_what_was_there(tmp_path):
    write_files(tmp_path, {"a": b"old", "b": b"old"})

    class Breaks(dict):
        def items(self):
            yield "a", b"new"
            raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left"):
        write_files(tmp_path, Breaks())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old", "b": b"old"}


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, or lies below one"):
        write_files(tmp_path / "file", {"a": b"new"})
