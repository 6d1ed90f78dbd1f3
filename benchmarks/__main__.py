"""`make bench`: every figure the project promises, in one table, with the raw disk loop of the same run beside it."""

from __future__ import annotations

import asyncio
import os
import sys

from benchmarks import cycles, large, relays


def main() -> None:
    rows: list[tuple[str, str, str]] = []

    def row(what: str, got: str, target: str) -> None:
        rows.append((what, got, target))
        print(f"{what:<62} {got:<34} {target}", flush=True)

    print(f"{'figure':<62} {'measured':<34} target   (load {os.getloadavg()[0]:.1f} at the start)")
    for made in cycles.main():
        n = int(made["workers"])
        row(
            f"durable cycles in the daemon's process, {n} agent(s), ratio to raw",
            f"{made['ratio']:.2f} ({made['ratio_min']:.2f}..{made['ratio_max']:.2f}); {made['team']:.0f}/s",
            ">= 0.8" if n == 1 else ">= 0.5",
        )
        row(f"  raw loop 3x(write+fdatasync) by {n} thread(s)", f"{made['raw']:.0f}/s", "")
        row(f"  SQLite WAL synchronous=FULL queue by {n} thread(s)", f"{made['sqlite']:.0f}/s", "")
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
    got = asyncio.run(large.measure())
    row(
        f"daemon restart over {got['records']:.0f} records in 100 logs, p50 / max",
        f"{got['restart_p50']:.2f} / {got['restart_max']:.2f} s",
        "<= 5 s",
    )
    row(
        f"events_read of the last 50 of {got['page_log_records']:.0f} records, p50 / p95",
        f"{got['page_p50_ms']:.1f} / {got['page_p95_ms']:.1f} ms",
        "<= 10 ms p95",
    )
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    sys.exit(main())
