"""The demo's jobs: as many as promised, and about files that exist."""

import re
from collections import Counter
from pathlib import Path

from orchestrator.cli.demo_jobs import AGENTS, jobs

ROOT = Path(__file__).resolve().parents[3]


def test_three_agents_get_ten_jobs_each_one_to_be_canceled_and_one_to_fail():
    work = jobs("/py")
    assert Counter(job.agent for job in work) == dict.fromkeys((name for name, _ in AGENTS), 10)
    assert len({job.task_id for job in work}) == 30
    assert Counter(job.outcome for job in work) == {"result": 28, "canceled": 1, "error": 1}


def test_every_path_a_job_names_exists():
    named = {
        path for job in jobs("/py") for path in re.findall(r"(?:orchestrator|tests|prompts)/[\w/.-]*\w", job.command)
    }
    assert len(named) > 15
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_interpreters_path_is_quoted_for_the_shell():
    assert all("'/a b/python'" in job.command for job in jobs("/a b/python") if "python" in job.command)
