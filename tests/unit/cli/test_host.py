"""`host add`: the name in the fleet that is made of an address."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.cli.host import _name_of


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("me@box", "box"),
        ("GPU_1.example.org", "gpu-1"),
        ("me@192.168.1.5", "192-168-1-5"),
        ("me@company@box", "box"),
    ],
)
def test_the_name_of_a_host_is_made_of_its_address(address, name):
    assert _name_of(address) == name


@pytest.mark.parametrize("address", ["bøx", "me@[fd00::2]", "me@", "x" * 64])
def test_an_address_that_makes_no_name_asks_for_one(address):
    with pytest.raises(BadRequest) as caught:
        _name_of(address)
    assert (caught.value.code, caught.value.next_step) == ("bad_argument", "give it one: --name NAME")
