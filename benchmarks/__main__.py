"""`make bench`: every figure the project promises, in one table, with the raw disk loop of the same run beside it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from benchmarks import (
    cycles,
    faces,
    gsd,
    gsd_index,
    gsd_team,
    large,
    recovery,
    relays,
    spawn,
    squads,
    tmux_calls,
    top,
    waits,
)

Row = Callable[[str, str, str], None]


def main() -> None:
    """Print every figure, or those of the groups named as arguments: cycles, relays, waits, large, growth, recovery, tmux, squads, spawn, gsd, faces."""

    def row(what: str, got: str, target: str) -> None:
        print(f"{what:<62} {got:<34} {target}", flush=True)

    print(f"{'figure':<62} {'measured':<34} target   (load {os.getloadavg()[0]:.1f} at the start)")
    for name in sys.argv[1:] or GROUPS:
        GROUPS[name](row)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def of_tmux(row: Row) -> None:
    for what, got in tmux_calls.main().items():
        row(f"tmux: {what}", f"{got['p50_ms']:.1f} ms, {got['processes']:g} process(es)", "")


def durable(row: Row) -> None:
    for made in cycles.main():
        n = int(made["workers"])
        row(
            f"durable cycles in the daemon's process, {n} agent(s), ratio to raw",
            f"{made['ratio']:.2f} ({made['ratio_min']:.2f}..{made['ratio_max']:.2f}); {made['team']:.0f}/s",
            ">= 0.8" if n == 1 else ">= 0.5",
        )
        row(f"  raw loop 3x(write+fdatasync) by {n} thread(s)", f"{made['raw']:.0f}/s", "")
        row(f"  SQLite WAL synchronous=FULL queue by {n} thread(s)", f"{made['sqlite']:.0f}/s", "")


def through_relays(row: Row) -> None:
    got = asyncio.run(relays.latency())
    row(
        "enqueue -> received by a waiting agent, p50 / p95 / max",
        f"{got['p50']:.1f} / {got['p95']:.1f} / {got['max']:.1f} ms",
        "<= 5 / 15 ms",
    )
    got = asyncio.run(relays.many())
    row("30 agents x 5 tasks delivered", f"{got['fanout_s']:.2f} s", "<= 1 s")
    row(
        "durable cycles through real relays, 1 / 30 agents",
        f"{got['cycles_1']:.0f} / {got['cycles_30']:.0f} per s",
        "",
    )
    row("relay, proportional set size", f"{got['relay_pss_mb']:.1f} MB", "<= 10 MB")
    row("daemon with 30 agents, resident", f"{got['daemon_rss_mb']:.0f} MB", "")
    row("idle CPU of the daemon and 30 waiting relays", f"{got['idle_cpu_percent']:.2f} % of a core", "<= 1 %")
    got = asyncio.run(relays.starts())
    row(
        "agents_create of three -> third ready, p50 / max",
        f"{got['three_p50']:.2f} / {got['three_max']:.2f} s",
        "<= 3 s",
    )
    row(
        "30 relays ready against a warm daemon, p50 / max",
        f"{got['thirty_p50']:.2f} / {got['thirty_max']:.2f} s",
        "<= 1.5 s",
    )
    row("cold start to answered tools/list, p50 / max", f"{got['cold_p50']:.2f} / {got['cold_max']:.2f} s", "<= 2 s")


def of_waits(row: Row) -> None:
    got = asyncio.run(waits.report())

    def told(name: str) -> str:
        return f"{got[f'{name}_p50']:.1f} / {got[f'{name}_p95']:.1f} / {got[f'{name}_max']:.1f} ms"

    row("an agent's ack, nobody else waits, p50 / p95 / max", told("quiet"), "")
    row(f"  while {waits.AGENTS} others wait", told("open"), "as when nobody waits")
    row(f"  while {waits.AGENTS} others begin to wait at once", told("after"), "")
    row("  the same by a daemon that lets them all in at once", told("before"), "")


def restarts(row: Row) -> None:
    got = asyncio.run(large.measure())
    what = f"over {got['records']:.0f} records in 100 logs"
    for name, end in (("kill", "kill -9"), ("clean", "a clean end")):
        took, floor = got[f"{name}_p50"], got[f"{name}_floor"]
        row(f"restart after {end} {what}, p50 / max", f"{took:.2f} / {got[f'{name}_max']:.2f} s", "")
        adds = f"{floor:.2f} s; {took - floor:.2f} s ({got[f'{name}_cpu']:.2f} s of CPU)"
        row("  over an empty project; what the records add", adds, "adds <= 1 s")
    row(
        f"restart without a cache {what}; an empty one",
        f"{got['cold']:.2f} s; {got['cold_floor']:.2f} s",
        "",
    )
    row("  its daemon, resident; an empty one's", f"{got['rss_mb']:.0f} MB; {got['rss_floor_mb']:.0f} MB", "")
    got = asyncio.run(large.pages())
    row(
        f"events_read of the last 50 of {got['page_log_records']:.0f} records, p50 / p95",
        f"{got['page_p50_ms']:.1f} / {got['page_p95_ms']:.1f} ms",
        "<= 10 ms p95",
    )


def growth(row: Row) -> None:
    got = asyncio.run(large.growth())
    row(
        f"daemon's memory after 5 % and all of {got['tasks']:.0f} tasks (peak)",
        f"{got['before_rss_mb']:.0f} ({got['before_peak_mb']:.0f}) / {got['after_rss_mb']:.0f} "
        f"({got['after_peak_mb']:.0f}) MB",
        "does not grow",
    )
    row("  its descriptors", f"{got['before_fds']:.0f} / {got['after_fds']:.0f}", "does not grow")


def going_on(row: Row) -> None:
    got = asyncio.run(recovery.agent_killed())
    row(
        "kill -9 of an agent -> its task runs again, without the start",
        f"p50 {got['p50'] * 1000:.0f}, p95 {got['p95'] * 1000:.0f}, max {got['max'] * 1000:.0f} ms",
        "",
    )
    row("  with the start of the next life (shell worker), p50", f"{got['whole_p50']:.2f} s", "")
    got = asyncio.run(recovery.daemon_killed())
    row("kill -9 of the daemon -> the next call is answered, p50 / max", f"{got['p50']:.2f} / {got['max']:.2f} s", "")
    got = asyncio.run(recovery.day())
    hours = ("first", "full", "last")
    memory, fds, cpu = (
        " / ".join(f"{got[f'{hour}_{what}']:.0f}" for hour in hours) for what in ("rss_mb", "fds", "cpu_us")
    )
    row(
        f"24 hours by the clock, {got['tasks']:.0f} tasks: memory in hour 1 / 9 / 24",
        f"{memory} MB",
        "flat from 9 on",
    )
    row("  descriptors", fds, "flat")
    row("  CPU per task", f"{cpu} us", "flat from 9 on")


def of_squads(row: Row) -> None:
    got = asyncio.run(squads.measure())
    member, direct = got["member_p50_ms"], got["direct_p50_ms"]
    row(
        "squad member of true beyond its command, p50 of 20",
        f"{member - direct:.1f} ms ({member:.1f}, by hand {direct:.1f}: {member / direct:.1f} times)",
        "",
    )
    row(
        "20 members of true at once; 20 processes by hand",
        f"{got['together_s']:.2f} s; {got['together_direct_s']:.2f} s",
        "",
    )
    row(
        f"daemon's memory before and after {squads.MB} MB of output (peak)",
        f"{got['before_rss_mb']:.0f} ({got['before_peak_mb']:.0f}) / {got['after_rss_mb']:.0f} "
        f"({got['after_peak_mb']:.0f}) MB",
        "grows by < 20 MB",
    )


def of_spawn_runs(row: Row) -> None:
    got = asyncio.run(spawn.swarm())
    row(
        f"swarm of {spawn.NODES} nodes, model of 0 ms: a node beyond its call, p50",
        f"{got['node_p50_ms']:.1f} ms ({got['life_p50_ms']:.1f}, call by hand {got['call_p50_ms']:.1f})",
        "",
    )
    row("  nodes per second; calls by hand", f"{got['nodes_s']:.0f}; {got['by_hand_s']:.0f}", "")
    got = asyncio.run(spawn.waves())
    row(
        f"swarm of 3 waves and a merge at {spawn.WAVE_MS} ms, wall / critical path",
        f"p50 {got['p50']:.3f}, max {got['max']:.3f}",
        "<= 1.1",
    )
    got = asyncio.run(spawn.resumed())
    row(
        f"kill -9 of the daemon -> the model is asked again, {got['stored']:.0f} runs stored",
        f"p50 {got['p50']:.2f}, max {got['max']:.2f} s",
        "",
    )


def of_project_intelligence(row: Row) -> None:
    gsd.table(row)
    got = gsd_index.index_figures()
    row(
        f"gsd index of {got['files']} files ({got['edges']} edges), first; one process",
        f"{got['cold_s']:.2f} s; {got['alone_s']:.2f} s",
        "",
    )
    row(
        "  after one change; one new file; nothing",
        f"{got['changed_s']:.2f}; {got['added_s']:.2f}; {got['idle_s']:.2f} s",
        "",
    )
    got = asyncio.run(gsd_team.delivery())
    row(
        f"delivery p50 / p95 / max: quiet ({gsd_team.FILES} files in a graph.db)",
        f"{got['quiet_p50']:.1f} / {got['quiet_p95']:.1f} / {got['quiet_max']:.1f} ms",
        "<= 5 / 15 ms",
    )
    row(
        f"  while that is read {got['reads']:.0f} times ({got['read_s']:.1f} s each)",
        f"{got['busy_p50']:.1f} / {got['busy_p95']:.1f} / {got['busy_max']:.1f} ms",
        "<= 5 / 15 ms",
    )
    row("  quiet again", f"{got['again_p50']:.1f} / {got['again_p95']:.1f} / {got['again_max']:.1f} ms", "")


def of_faces(row: Row) -> None:
    started = top.starts()
    row(
        "top: start to its first screen, p50 / max; its CPU",
        f"{started['start_p50']:.0f} / {started['start_max']:.0f} ms; {started['start_cpu']:.0f} ms",
        "<= 500 ms",
    )
    got = asyncio.run(faces.measure())
    frames, none = got["frames"], got["none"]
    row(
        f"top: frame, {faces.AGENTS} agents, {got['top']['changes_s']:.0f} changes a second, p50 / p95 / max",
        f"{frames['frame_p50']:.1f} / {frames['frame_p95']:.1f} / {frames['frame_max']:.1f} ms",
        "<= 50 ms",
    )
    row(f"  processes that it started in {frames['frames']:.0f} frames", f"{frames['started']:.0f}", "0")
    what = f"{none['looks_s']:.1f} + {none['others_s']:.1f} tmux a second"
    row("daemon: CPU with no face", f"{none['daemon']:.1f} % of a core; {what}", "")
    for name, face in (
        ("top", "top"),
        ("web_1", "web with 1 page"),
        ("web_10", "web with 10 pages"),
        ("watch", "status --watch"),
    ):
        mine = got[name]
        more = f"{mine['more']:+.1f} ({mine['more_min']:+.1f}..{mine['more_max']:+.1f}) % of a core"
        row(f"daemon: CPU more with {face}", more, "<= 3 %")
        row(f"  CPU of {face}", f"{mine['face']:.1f} % of a core", "<= 15 %" if name == "top" else "")
        looks, others = mine["looks_s"] - none["looks_s"], mine["others_s"] - none["others_s"]
        row(
            "  tmux a second more: looks at screens, others", f"{looks:+.1f}, {others:+.1f}", "no process for a frame"
        )
        if "lag_p50" in mine:
            lag = f"{mine['lag_p50']:.0f} / {mine['lag_p95']:.0f} / {mine['lag_max']:.0f} ms"
            row("  an agent's result -> shown, p50 / p95 / max", lag, "")
    for name, face in (("idle_none", "no face"), ("idle_top", "top"), ("idle_web_10", "web with 10 pages")):
        mine = got[name]
        row(
            f"only screens change, {face}: CPU of daemon, face",
            f"{mine['daemon']:.2f}, {mine['face']:.2f} %",
            "about nothing",
        )


GROUPS = {
    "cycles": durable,
    "relays": through_relays,
    "waits": of_waits,
    "tmux": of_tmux,
    "large": restarts,
    "growth": growth,
    "recovery": going_on,
    "squads": of_squads,
    "spawn": of_spawn_runs,
    "gsd": of_project_intelligence,
    "faces": of_faces,
}

if __name__ == "__main__":
    sys.exit(main())
