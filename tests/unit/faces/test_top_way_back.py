"""The tmux commands by which Esc comes back from an agent's pane, from what tmux says of where top is."""

import pytest

from orchestrator.faces.top.way_back import (
    Origin,
    bind_command,
    facts_command,
    listen_words,
    origin_of,
    table_of,
    unbind_command,
)

HERE = Origin(pane="%1", client="/dev/pts/7", agent_zoomed=False)


def test_what_tmux_says_is_read_and_of_nonsense_nothing_is_assumed():
    assert origin_of("@2 1\n@2 0 %1 /dev/pts/7\n") == Origin(True, True, "%1", False, "/dev/pts/7")
    assert origin_of("@2 0\n@3 1 %1 a name\n") == Origin(False, False, "%1", True, "a name")
    assert origin_of("@2 0\n@3 1 %1 \n").client == ""
    assert origin_of("@2 0") == Origin(False)
    assert origin_of("") == origin_of("nonsense") == Origin()


def test_only_a_pane_that_was_zoomed_for_this_is_zoomed_out_again():
    assert "resize-pane -Z -t %7" in bind_command("/s", "%7", HERE, ())
    for origin in (HERE._replace(agent_zoomed=True), HERE._replace(same_window=True)):
        assert "resize-pane -Z -t %7" not in bind_command("/s", "%7", origin, ())
    assert "resize-pane -Z -t %1" in bind_command("/s", "%7", HERE._replace(pane_zoomed=True), ())


@pytest.mark.parametrize("popup", [(), ("display-popup", "-E", "top")])
def test_escape_leads_exactly_this_client_back_and_is_unbound(popup):
    command = bind_command("/s", "%7", HERE, popup)
    back = command[command.index("Escape") + 1 :]
    assert command[:6] == ["tmux", "-S", "/s", "bind-key", "-T", table_of(HERE)]
    assert back[(at := back.index("switch-client")) : at + 5] == ["switch-client", "-c", "/dev/pts/7", "-t", "%1"]
    assert back[-5:] == ["unbind-key", "-q", "-T", table_of(HERE), "Escape"]
    assert ("display-popup" in back) == bool(popup)
    assert ";" not in command  # it would end the binding


def test_outside_of_that_server_escape_detaches():
    assert "detach-client" in bind_command("/s", "%7", Origin(), ())
    assert ";" not in facts_command("/s", "%7", here=False)
    assert listen_words(Origin(), "prefix d")[:4] == [";", "switch-client", "-T", table_of(Origin())]


def test_each_client_has_a_table_of_its_own():
    assert table_of(HERE) == "orchestrator-top-dev-pts-7"
    assert table_of(HERE) != table_of(Origin())
    assert unbind_command("/s", "t")[3:] == ["unbind-key", "-q", "-T", "t", "Escape"]
