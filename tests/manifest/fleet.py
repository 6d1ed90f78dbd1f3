"""What is promised of one team on several machines, and the tests that prove each promise."""

from tests.manifest.team import Promise

SCHEMA = "integration/fleet/test_schema.py::test_"
DATABASE = "integration/fleet/test_database.py::test_"
ADMINISTRATION = "integration/fleet/test_administration.py::test_"
COMMANDS = "integration/fleet/test_fleet_commands.py::test_"
PAGE = "integration/fleet/test_fleet_page.py::test_"
TOGETHER = "unit/fleet/test_hosts_together.py::test_"
LATE = "unit/fleet/test_late_results.py::test_"
WAITING = "unit/fleet/test_waiting_posts.py::test_"
ACCEPTANCE = "unit/fleet/test_acceptance.py::test_"
SETTINGS = "unit/fleet/test_fleet_settings.py::test_"
MATRIX = "crash/test_fleet_matrix.py::test_"
NETWORK = "crash/test_fleet_matrix_network.py::test_"
HOME = "crash/test_fleet_matrix_home.py::test_"
SERVER = "crash/test_fleet_matrix_server.py::test_"
LOGS = "unit/team/roster/test_mirrored_logs.py::test_"
DEMO = "e2e/test_fleet_demo.py::test_"

PROMISES: dict[str, Promise] = {
    "FLEET1": Promise(
        "A call is accepted by one commit, once, in order, also while the owner is away; it takes it when it is back.",
        (
            f"{SCHEMA}two_posts_get_two_numbers_and_one_limit_holds",
            f"{SCHEMA}an_answer_again_is_as_durable_as_the_first",
            f"{SCHEMA}a_stop_closes_before_the_next_task",
            f"{DATABASE}a_server_that_is_killed_keeps_every_acknowledged_post",
            f"{DATABASE}a_call_whose_answer_is_lost_is_sent_again_and_accepted_once",
            f"{DATABASE}a_call_that_may_have_been_accepted_says_so_with_its_task",
            f"{TOGETHER}an_owner_that_was_killed_takes_what_was_posted_meanwhile",
            f"{NETWORK}an_answer_that_is_lost_behind_its_commit_makes_nothing_twice",
        ),
    ),
    "FLEET2": Promise(
        "The master's tools and the people's commands work on agents of other hosts as on local ones.",
        (
            f"{TOGETHER}a_task_posted_at_its_home_is_done_at_its_owner_and_told_at_home",
            f"{TOGETHER}a_canceled_task_of_a_remote_agent_is_never_handed_out_and_a_deletion_ends_the_rest",
            f"{COMMANDS}a_machine_is_added_works_and_is_removed",
            f"{PAGE}the_commands_of_the_page_do_what_it_says",
        ),
    ),
    "FLEET3": Promise(
        "`any` places agents where most places are free, twenty over three hosts in one call, and none twice.",
        (
            f"{SCHEMA}any_spreads_twenty_agents_over_three_hosts_in_one_call",
            f"{SCHEMA}two_creations_never_share_an_id",
            f"{TOGETHER}agents_of_any_host_are_spread_and_a_resent_creation_makes_none_twice",
        ),
    ),
    "FLEET4": Promise(
        "An agent of a lost host moves once, under a raised fence; each of its tasks ends once, whatever the old owner does later.",
        (
            f"{SCHEMA}a_move_fences_the_ship_that_waits_for_it",
            f"{SCHEMA}a_ship_that_began_first_is_in_the_mirror_that_moves",
            f"{SCHEMA}two_movers_move_once",
            f"{TOGETHER}a_lost_host_gives_its_agent_and_its_task_to_another_and_a_returned_one_keeps_nothing",
            f"{MATRIX}hosts_whose_daemons_die_at_any_step_of_a_takeover_move_the_agent_once",
            f"{MATRIX}an_agent_moves_from_a_host_that_dies_at_any_step",
            f"{NETWORK}a_host_that_wakes_after_its_agent_has_moved_hands_out_nothing",
            f"{NETWORK}a_host_that_sleeps_over_its_lease_hands_out_nothing",
            f"{DEMO}every_job_ends_once_though_a_host_is_lost_and_nothing_is_left",
        ),
    ),
    "FLEET5": Promise(
        "A daemon, a network and a server that fail at any step lose no task and run none twice unnoticed.",
        (
            f"{MATRIX}a_host_whose_daemon_dies_at_any_step_of_a_task_does_each_task_once",
            f"{NETWORK}a_call_that_is_lost_on_its_way_is_made_in_the_end",
            f"{NETWORK}a_partition_that_ends_loses_nothing",
            f"{NETWORK}a_slow_network_and_one_that_breaks_again_and_again_only_cost_time",
            f"{NETWORK}a_database_that_is_away_stops_no_agent_that_has_work",
            f"{SERVER}a_server_that_ends_in_any_way_keeps_what_was_accepted",
            f"{SERVER}a_server_that_fails_over_to_an_older_copy_gets_what_the_owners_have",
            f"{SCHEMA}a_promoted_standby_skips_numbers_before_any_post",
        ),
    ),
    "FLEET6": Promise(
        "A run has one home; another host takes it, also from a lost one, and readers of the former broadcast are refused.",
        (
            f"{TOGETHER}a_master_elsewhere_takes_a_run_and_an_older_position_is_refused",
            "unit/fleet/test_run_homes.py::test_a_take_that_the_disk_refuses_is_an_error_and_is_done_once_the_disk_accepts",
            "unit/fleet/test_run_homes.py::test_an_interrupted_take_keeps_the_former_broadcast",
            f"{HOME}a_host_that_dies_while_it_takes_a_run_has_the_whole_broadcast_in_the_end",
            f"{HOME}a_run_whose_whole_home_is_lost_is_led_on_another_host_and_a_returned_home_harms_nothing",
            f"{HOME}agents_of_a_lost_home_move_or_wait_and_the_new_home_reports_both",
        ),
    ),
    "FLEET7": Promise(
        "Only what a host accepts starts a program there, and only a human at a terminal makes a host.",
        (
            f"{ACCEPTANCE}only_hosts_that_are_named_may_start_something_and_this_one_always_may",
            f"{ACCEPTANCE}only_engines_that_are_named",
            f"{ACCEPTANCE}only_roles_that_are_named",
            f"{ACCEPTANCE}no_more_approval_than_is_accepted",
            f"{ACCEPTANCE}by_default_nothing_is_taken_and_every_refusal_is_one_sentence",
            f"{TOGETHER}what_a_call_leaves_open_is_accepted_only_as_the_owner_decides_it",
            f"{COMMANDS}nobody_but_a_human_joins_a_fleet",
        ),
    ),
    "FLEET8": Promise(
        "A host has a role without rights on tables, acts in its project alone, and its password stands in its own file only.",
        (
            f"{SCHEMA}a_host_has_the_functions_and_nothing_else",
            f"{SCHEMA}a_host_acts_in_its_own_project_alone",
            f"{ADMINISTRATION}a_password_lets_in_and_stands_nowhere",
            f"{SETTINGS}only_a_proven_server_or_this_machine_is_safe",
            f"{SETTINGS}a_password_file_is_this_users_alone",
        ),
    ),
    "FLEET9": Promise(
        "Bad input is one sentence and a next step, and nothing is half made.",
        (
            f"{COMMANDS}a_failed_init_leaves_no_half_a_host",
            f"{COMMANDS}a_machine_that_cannot_be_a_host_is_left_as_it_was",
            f"{DATABASE}a_wrong_dsn_is_one_sentence_without_the_password",
            f"{DATABASE}a_pooler_is_refused",
            f"{DATABASE}each_sqlstate_is_a_code",
            f"{ADMINISTRATION}the_schema_of_another_program_is_left_alone",
            f"{ADMINISTRATION}a_newer_schema_is_left_alone",
            f"{ADMINISTRATION}a_database_of_another_encoding_is_refused",
            "unit/fleet/test_fleet_model.py::test_join_refuses_strangers",
        ),
    ),
    "FLEET10": Promise(
        "The demo of a fleet ends each of sixty jobs once though a host is lost, and leaves nothing; its page is true.",
        (
            f"{DEMO}every_job_ends_once_though_a_host_is_lost_and_nothing_is_left",
            f"{DEMO}ctrl_c_ends_all_of_it",
            f"{PAGE}the_commands_of_the_page_do_what_it_says",
            f"{PAGE}the_examples_of_the_help_do_what_they_say",
        ),
    ),
    "FLEET11": Promise(
        "A new owner believes exactly the lines that it has accepted, and a returned one's directory is no agent.",
        (
            f"{LOGS}a_taken_over_agent_is_loaded_as_it_was_and_goes_on",
            f"{LOGS}changed_accepted_lines_are_foreign_to_every_reader",
            f"{LOGS}a_line_behind_the_accepted_ones_needs_the_own_seal",
            f"{LOGS}what_was_accepted_counts_for_its_log_alone_and_lies_outside_the_project",
            f"{LOGS}a_crash_in_a_takeover_leaves_the_whole_agent_or_none",
            f"{LOGS}a_strangers_replica_is_foreign_and_never_becomes_an_agent",
            f"{LOGS}a_fenced_directory_is_no_agent_and_gc_removes_it_when_it_is_old",
        ),
    ),
    "FLEET12": Promise(
        "Who sets no [fleet] pays nothing: no import and no connection.",
        ("integration/test_daemon.py::test_a_daemon_without_a_fleet_loads_nothing_of_it",),
        "measured: the time of local calls, benchmarks",
    ),
    "FLEET13": Promise(
        "`verify --fleet` finds every violation of the fleet's invariants.",
        (
            "unit/core/test_mirror_invariants.py::test_a_sound_mirror_has_no_faults",
            "unit/core/test_mirror_invariants.py::test_a_planted_violation_is_found",
            "unit/core/test_mirror_invariants.py::test_every_kind_is_planted_and_documented",
        ),
    ),
    "FLEET14": Promise(
        "What a lost host reports after its return is shown as late, and is never the outcome; a host that lies is not believed.",
        (
            f"{LATE}the_master_and_the_next_attempt_see_a_late_result_and_the_outcome_is_that_of_the_owner",
            f"{LATE}a_late_result_is_recorded_once_also_if_the_owner_starts_again",
            f"{LATE}late_lines_of_a_host_that_lies_are_passed_over_and_what_follows_is_recorded",
            "unit/core/test_fleet_rules.py::test_a_late_end_is_recorded_and_changes_no_status_and_no_outcome",
        ),
    ),
    "FLEET15": Promise(
        "What an absent host has not taken yet is shown at the home of the run, and once it is taken, once.",
        (
            f"{WAITING}tasks_posted_to_an_absent_host_are_shown_and_those_it_takes_are_shown_once",
            f"{WAITING}what_waits_is_read_again_after_a_restart_and_for_an_agent_that_was_never_made",
            f"{WAITING}posts_that_a_failover_lost_are_shown_no_more_and_many_are_read_in_pages",
            f"{WAITING}nothing_is_read_of_a_host_that_takes_its_posts",
        ),
    ),
    "FLEET16": Promise(
        "Latency beside the raw chain, cycles, statements, syncs, takeover, an idle host, and growth reach their bounds.",
        reason="measured: python -m benchmarks fleet",
    ),
}
