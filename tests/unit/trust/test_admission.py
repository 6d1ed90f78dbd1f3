"""The rights of a connection, decided from what is known of it alone."""

import pytest

from orchestrator.trust.admission import Arrival, admission
from orchestrator.trust.origin import UNKNOWN, ProcessOrigin

OUTSIDE = ProcessOrigin("outside")
MEMBER = ProcessOrigin("member")
IN_A = ProcessOrigin("agent", frozenset({("/p", "a")}))
IN_B = ProcessOrigin("agent", frozenset({("/p", "b")}))
MARKED_A = ProcessOrigin("agent", frozenset({("", "a")}))
A, B, NOBODY = frozenset("a"), frozenset("b"), frozenset()


@pytest.mark.parametrize(
    ("known", "rights", "code"),
    [
        ({}, "master", None),
        ({"origin": UNKNOWN}, "reader", "origin_unknown"),
        ({"origin": MEMBER}, "refused", "not_for_agents"),
        ({"names_member": True}, "refused", "not_for_agents"),
        ({"origin": IN_A}, "refused", "not_for_agents"),
        ({"named": A}, "refused", "not_for_agents"),
        ({"agent_tools": True}, "refused", "not_an_agent"),
        # A claim: of oneself, of nobody's process, of another's.
        ({"claimed": "a"}, "agent", None),
        ({"claimed": "a", "origin": IN_A, "named": A}, "agent", None),
        ({"claimed": "a", "origin": MARKED_A}, "agent", None),
        ({"claimed": "a", "origin": UNKNOWN, "agent_tools": True}, "agent", None),
        ({"claimed": "a", "origin": IN_B}, "refused", "not_an_agent"),
        ({"claimed": "a", "named": B}, "refused", "not_an_agent"),
        ({"claimed": "a", "origin": MEMBER}, "refused", "not_for_agents"),
        ({"claimed": "a", "names_member": True}, "refused", "not_for_agents"),
        # An agent's own socket serves that agent only, whoever comes.
        ({"socket_of": A}, "refused", "not_an_agent"),
        ({"socket_of": NOBODY}, "refused", "not_an_agent"),
        ({"socket_of": A, "claimed": "a"}, "agent", None),
        ({"socket_of": A, "claimed": "b"}, "refused", "not_an_agent"),
    ],
)
def test_rights(known, rights, code):
    admitted = admission(Arrival("/p", **{"origin": OUTSIDE, **known}))
    assert (admitted.rights, admitted.why and admitted.why.code) == (rights, code)


def test_an_agent_of_another_project_with_the_same_id_is_another_agent():
    admitted = admission(Arrival("/q", IN_A, claimed="a"))
    assert (admitted.rights, admitted.why.code) == ("refused", "not_an_agent")
