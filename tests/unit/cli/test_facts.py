"""What commands show: read from the daemon page by page."""

from orchestrator.cli.facts import FromDaemon


class Link:
    """A daemon whose run has had two homes; it keeps what it is asked."""

    def __init__(self, *gens):
        self.gens, self.asked = list(gens), []

    def tool(self, name, arguments, wait_s=0.0):
        self.asked.append((name, arguments["since_seq"], arguments.get("gen")))
        gen = self.gens.pop(0)
        return {"events": [], "last_seq": 7} | ({} if gen is None else {"gen": gen})


def test_the_next_page_of_a_broadcast_names_the_broadcast_of_the_page_before():
    link = Link(2, 2)
    source = FromDaemon(link)
    source.broadcast("run-1", 0, 50)
    source.broadcast("run-1", 7, 50)
    assert link.asked == [("broadcast_read", 0, None), ("broadcast_read", 7, 2)]


def test_a_run_without_a_fleet_has_one_broadcast():
    link = Link(None, None)
    source = FromDaemon(link)
    source.broadcast("run-1", 0, 50)
    source.broadcast("run-1", 7, 50)
    assert link.asked[1] == ("broadcast_read", 7, None)
