"""The id that is made of a name, whatever its alphabet."""

import unicodedata

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.core.agent_ids import ascii_form, slug


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Backend", "backend"),
        ("  QA / e2e -- tests ", "qa-e2e-tests"),
        ("x" * 70, "x" * 60),
        ("a" * 59 + " b", "a" * 59),
        ("XaX", "xax"),
    ],
)
def test_an_agents_id_is_made_of_the_letters_and_digits_of_its_name(name, made):
    assert slug(name) == made


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Über 9", "ueber-9"), ("Prüfer", "pruefer"), ("STRASSE ẞ", "strasse-ss"), ("Émile", "emile"),
        ("Smørrebrød Ærø", "smorrebrod-aero"), ("Łódź", "lodz"), ("İstanbul ı", "istanbul-i"), ("Þór", "thor"),
        ("Проверка Ёлки", "proverka-elki"), ("Київ", "kiiv"), ("Έλεγχος", "elegchos"), ("ﬁve １２", "five-12"),
        ("빌더 api", "api"),
    ],
)  # fmt: skip
def test_other_letters_become_ascii_however_they_are_composed(name, made):
    assert slug(name) == slug(unicodedata.normalize("NFD", name)) == made


@pytest.mark.parametrize("name", ["한국어", "構築", "ビルダー"])
def test_a_name_whose_letters_have_no_ascii_form_still_gets_an_id(name):
    assert (ascii_form(name), slug(name)) == ("", "agent")


@pytest.mark.parametrize("name", ["", "--", "🚀"])
def test_a_name_without_a_letter_or_digit_makes_no_id(name):
    with pytest.raises(BadRequest, match=repr(name)) as caught:
        slug(name)
    assert caught.value.code == "bad_id"
