"""What a connection is offered follows from its rights and its toolsets."""

from types import SimpleNamespace

import pytest

from orchestrator.core.connection import ConnectionOrigin
from orchestrator.daemon.features import Features
from orchestrator.protocol.offers import Offer
from orchestrator.protocol.tool_calls import Client


class Feature:
    """Stands for a feature: its offer says whose it is."""

    tools = None

    def __init__(self, name):
        self.name = name

    def offer(self, _client):
        return Offer(instructions=self.name)

    def agent_offer(self, _client, _queries):
        return Offer(instructions="an agent's")

    def agent_prompts(self, _client):
        return "its loop"


@pytest.mark.parametrize(
    ("rights", "toolsets", "offers"),
    [
        ("master", ("team",), ["team", "squad", "spawn"]),
        ("master", ("team", "gsd"), ["team", "squad", "spawn", "gsd"]),
        ("master", ("gsd",), ["gsd"]),
        ("reader", ("squad", "gsd"), ["team", "squad", "spawn", "gsd"]),
        ("reader", ("gsd", "gsd"), ["gsd"]),
        ("agent", ("gsd",), ["an agent's"]),
        ("refused", ("team", "gsd"), [""]),
    ],
)
def test_each_connection_gets_the_offers_of_its_rights(rights, toolsets, offers):
    features = SimpleNamespace(queries={}, **{name: Feature(name) for name in ("team", "spawn", "gsd")})
    features.squads = Feature("squad")
    client = Client(ConnectionOrigin("c", "/"), "relay", rights, toolsets)
    found = Features.offers(features, client)
    assert [offer.instructions for offer in found] == offers
    assert all(not offer.tools and offer.resources is None for offer in found)
    assert [offer.prompts for offer in found if offer.prompts] == (["its loop"] if rights == "refused" else [])
