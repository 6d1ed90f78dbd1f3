"""The demo's jobs: as many as promised, and about files of the sample project."""

import re
from collections import Counter

from orchestrator.base import package_data
from orchestrator.cli.demo_jobs import AGENTS, FLEET_AGENTS, fleet_jobs, jobs


def test_three_agents_get_ten_jobs_each_one_to_be_canceled_and_one_to_fail():
    work = jobs("/py")
    assert Counter(job.agent for job in work) == dict.fromkeys((name for name, _ in AGENTS), 10)
    assert len({job.task_id for job in work}) == 30
    assert Counter(job.outcome for job in work) == {"result": 28, "canceled": 1, "error": 1}


def test_nine_agents_of_a_fleet_get_sixty_jobs_whose_third_takes_seconds():
    work = fleet_jobs("/py")
    assert len({job.task_id for job in work}) == len(work) == 60
    assert {job.outcome for job in work} == {"result"}
    for agent in FLEET_AGENTS:
        own = [job for job in work if job.agent == agent]
        assert len(own) in (6, 7)
        assert [number for number, job in enumerate(own, 1) if "timeit" in job.command] == [3]


def test_every_path_and_module_a_job_names_exists():
    sample = package_data.sample()
    words = {word.strip("'") for job in jobs("/py") + fleet_jobs("/py") for word in job.command.split()}
    paths = {word for word in words if re.fullmatch(r"(texttally|tests|tools|texts)(/[\w.]+)*|README\.md", word)}
    modules = {
        word.replace(".", "/") + ".py" for word in words if re.fullmatch(r"(tests|texttally)\.(?!zip)\w+", word)
    }
    assert len(paths) > 8
    assert len(modules) > 4
    assert [path for path in sorted(paths | modules) if not (sample / path).exists()] == []


def test_the_interpreters_path_is_quoted_for_the_shell():
    assert all("'/a b/python'" in job.command for job in jobs("/a b/python") if "python" in job.command)
