"""Whose a run is: an owner is dead only if that is certain."""

import os
import subprocess
import sys
from dataclasses import replace

from orchestrator.base.platform import process_facts
from orchestrator.spawn import run_owner
from orchestrator.spawn.run_data import RunSettings


def test_this_process_is_alive_and_names_itself():
    me = run_owner.this_daemon()
    assert (me.pid, me.start, me.boot_id) == (
        os.getpid(),
        process_facts.start_time(os.getpid()),
        process_facts.boot_id(),
    )
    assert me.host
    assert not run_owner.has_ended(me, me)


def test_an_owner_is_dead_once_its_process_has_ended_also_when_nobody_has_waited_for_it():
    me = run_owner.this_daemon()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        other = replace(me, pid=child.pid, start=process_facts.start_time(child.pid))
        assert not run_owner.has_ended(other, me)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert run_owner.has_ended(other, me)
    assert run_owner.has_ended(other, me)


def test_a_pid_that_is_another_process_now_is_not_the_owner():
    me = run_owner.this_daemon()
    assert run_owner.has_ended(replace(me, start=me.start - 1), me)


def test_who_lived_in_another_boot_is_dead_and_who_lives_elsewhere_never():
    me = run_owner.this_daemon()
    assert run_owner.has_ended(replace(me, boot_id="another"), me)
    for foreign in (replace(me, host="elsewhere"), replace(me, host="elsewhere", boot_id="x", pid=0, start=0)):
        assert not run_owner.has_ended(foreign, me)


def test_without_a_boot_id_nobody_is_dead_by_it():
    me = run_owner.this_daemon()
    assert not run_owner.has_ended(replace(me, boot_id=""), me)
    assert not run_owner.has_ended(me, replace(me, boot_id=""))


def test_a_foreign_hosts_run_is_given_up_once_it_has_been_quiet_for_longer_than_it_may_take():
    me = run_owner.this_daemon()
    foreign, settings = replace(me, host="elsewhere"), RunSettings(run_timeout_s=100)
    assert not run_owner.presumed_ended(foreign, me, 100, settings)
    assert run_owner.presumed_ended(foreign, me, 100 + run_owner.MARGIN_S + 1, settings)
    assert not run_owner.presumed_ended(me, me, 1e9, settings)  # of this host one knows
