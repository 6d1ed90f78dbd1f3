"""Where pages go, and what they never replace."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.cli import reports


def test_without_a_chosen_file_a_page_goes_below_the_project_and_is_not_committed(tmp_path):
    place = reports.place_of(tmp_path, None, "../../page.html")
    assert place == tmp_path / ".agents" / "reports" / "page.html"
    assert (place.parent / ".gitignore").read_text() == "*\n"
    assert reports.place_of(tmp_path, tmp_path / "mine.html", "page.html") == tmp_path / "mine.html"


@pytest.mark.parametrize("link", [".agents", ".agents/reports"])
def test_a_repository_cannot_lead_a_page_out_of_the_project(tmp_path, link):
    root, away = tmp_path / "project", tmp_path / "away"
    away.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(away)
    with pytest.raises(BadRequest) as refused:
        reports.place_of(root, None, "page.html")
    assert refused.value.code == "path_escape"
    assert list(away.iterdir()) == []


@pytest.mark.parametrize("target", ["page.html", "mine.html"])
def test_a_link_in_the_place_of_a_page_cannot_lead_out_of_the_project(tmp_path, target):
    root, away = tmp_path / "project", tmp_path / "away"
    away.mkdir()
    (away / "mine.html").write_text("<!-- MARK -->")
    (root / ".agents" / "reports").mkdir(parents=True)
    (root / ".agents" / "reports" / "page.html").symlink_to(away / target)
    with pytest.raises(BadRequest) as refused:
        reports.place_of(root, None, "page.html")
    assert refused.value.code == "path_escape"


def test_only_a_page_of_ours_or_force_is_written_over(tmp_path):
    place = tmp_path / "page.html"
    reports.refuse_others(place, "MARK", force=False)
    place.write_text("somebody else's")
    with pytest.raises(BadRequest):
        reports.refuse_others(place, "MARK", force=False)
    reports.refuse_others(place, "MARK", force=True)
    reports.write(place, "<!-- MARK -->")
    reports.refuse_others(place, "MARK", force=False)
    for other in (tmp_path, tmp_path / "no" / "page.html"):
        with pytest.raises(BadRequest):
            reports.refuse_others(other, "MARK", force=True)


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path):
    place = tmp_path / "page.html"
    place.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        reports.write(place, "new \ud800")
    assert place.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
