"""The manifest, continued: spawn runs (B4.1 to B4.45), and what issue 6 must hold besides."""

from __future__ import annotations

from tests.manifest.team import Promise

TOOLS = "acceptance/test_spawn.py::test_"
LIMITS = "acceptance/test_spawn_limits.py::test_"
MATRIX = "crash/test_spawn_matrix.py::test_"
SCHEDULE = "unit/spawn/test_scheduler.py::test_"
UPGRADE = "unit/spawn/test_database_upgrade.py::test_"
COSTS = "unit/spawn/test_costs.py::test_"
SERVERS = "unit/spawn/test_servers.py::test_"
TRANSITIONS = "unit/spawn/test_transitions.py::test_"

SEVEN = f"{TOOLS}a_connection_of_spawn_runs_offers_the_seven_tools_of_the_design"
AT_ONCE = f"{TOOLS}a_run_is_created_at_once_in_the_designs_shape_and_goes_on_by_itself"
STATUS = f"{TOOLS}the_status_of_a_run_has_the_designs_keys_and_says_what_each_node_has_cost"
WAITED = f"{TOOLS}a_status_waits_for_a_change_and_names_the_wave_at_work"
RESULT = f"{TOOLS}a_result_waits_for_the_end_and_shows_the_merged_answer_first"
RAW = f"{TOOLS}every_raw_answer_is_kept_with_its_tokens_and_its_hash"
ARTIFACT = f"{TOOLS}an_artifact_is_read_by_node_merged_or_plan_and_by_the_original_tools_ids"
PLANNED = f"{TOOLS}every_mode_is_planned_by_the_smart_spawn_api_and_without_it"
CANCELED = f"{TOOLS}a_running_run_is_canceled_and_what_is_in_flight_is_called_off"
CANCELED_QUEUED = f"{TOOLS}a_queued_run_is_canceled_at_once_and_never_runs"
CONFLICT = f"{TOOLS}canceling_a_finished_run_is_a_conflict_that_names_its_outcome"
SINGLE = f"{TOOLS}single_asks_one_model_once_and_its_answer_is_the_merged_one"
COLLECTIVE = f"{TOOLS}collective_asks_two_to_five_models_at_once_and_merges"
TOLERANT = f"{TOOLS}collective_goes_on_while_one_answer_remains_and_says_who_failed"
CHEAP = f"{TOOLS}cascade_is_content_with_a_good_cheap_answer_and_pays_nobody_else"
PREMIUM = f"{TOOLS}cascade_asks_the_premium_model_when_the_cheap_answer_does_not_pass"
STEPS = f"{TOOLS}plan_runs_its_steps_one_by_one_each_with_the_answers_before_it"
SWARM = f"{TOOLS}swarm_runs_what_it_can_at_once_and_waits_for_what_it_must"
UPSTREAM = f"{TOOLS}a_failed_node_fails_those_behind_it_at_once_and_the_run_is_not_called_completed"
NAMES_NODE = f"{LIMITS}a_failure_names_its_node_and_model_its_attempts_and_the_next_step"
RETRIED = f"{LIMITS}what_can_pass_is_tried_again_after_a_pause_that_is_shown"
REFUSED = f"{LIMITS}what_cannot_pass_is_not_tried_again_and_the_error_says_what_to_do"
PENDING = f"{LIMITS}a_node_that_waits_for_its_next_attempt_is_shown_as_retry_pending"
RUNS = f"{LIMITS}no_more_runs_of_a_home_are_at_work_than_allowed_also_of_two_projects"
NODES = f"{LIMITS}no_more_nodes_of_a_run_are_in_flight_than_allowed"
SOFT_STOP = f"{LIMITS}a_run_that_reaches_its_budget_stops_softly_with_what_there_is"
CEILING = f"{LIMITS}the_sum_of_costs_and_reservations_never_passes_the_budget"
KILLED = f"{MATRIX}killed_at_any_step_a_run_ends_as_if_nothing_had_happened"
FAULTS = f"{MATRIX}each_fault_and_a_kill_in_the_middle_leave_a_defined_end_and_no_double_cost"
ONCE_MORE = f"{MATRIX}a_node_that_is_in_flight_at_two_deaths_is_not_asked_a_third_time"
NODE_TIME = f"{LIMITS}an_attempt_ends_when_the_nodes_time_is_over"
RUN_TIME = f"{LIMITS}a_run_ends_when_its_time_is_over_with_what_there_is"
KEYLESS = f"{LIMITS}a_run_without_a_key_is_refused_at_once_and_says_where_a_key_goes"
HISTORY = f"{SCHEDULE}every_history_ends_with_every_node_ended_and_nothing_begun_before_what_it_needs"

PROMISES: dict[str, Promise] = {
    "B4.1": Promise(
        "Spawn runs are offered over MCP to any client, locally, with the user's key.",
        (SEVEN, KEYLESS, f"{TOOLS}other_connections_are_not_offered_spawn_runs"),
    ),
    "B4.2": Promise("There are five modes, and all are asynchronous.", (PLANNED, AT_ONCE)),
    "B4.3": Promise("Raw outputs are kept.", (RAW,)),
    "B4.4": Promise("The merged output is the primary answer.", (RESULT,)),
    "B4.5": Promise("The Smart Spawn API plans where it can be reached.", (PLANNED,)),
    "B4.6": Promise(
        "OpenClaw, cloud queues, tenants and a hosted dependency are no goals.",
        (),
        "out of scope: the design says so",
    ),
    "B4.7": Promise("create stores a queued run and answers its id at once.", (AT_ONCE,)),
    "B4.8": Promise("A worker sets the run running.", (AT_ONCE,)),
    "B4.9": Promise(
        "The planner builds the graph.",
        (PLANNED, SWARM, f"{TOOLS}a_task_that_cannot_be_split_is_one_node_and_that_is_said"),
    ),
    "B4.10": Promise("The scheduler knows dependencies and waves.", (SWARM, STEPS, HISTORY)),
    "B4.11": Promise("Outputs are artifacts, linked in the database.", (RAW,)),
    "B4.12": Promise(
        "The merge is an artifact.",
        (ARTIFACT, RESULT, f"{TOOLS}a_merge_that_is_silent_on_disagreement_gets_a_note_of_that"),
    ),
    "B4.13": Promise("A run ends completed, failed or canceled.", (RESULT, CANCELED, UPSTREAM)),
    "B4.14": Promise("single is one node, its answer the merged one.", (SINGLE,)),
    "B4.15": Promise(
        "collective is parallel peers and a merge.",
        (COLLECTIVE, TOLERANT, f"{TOOLS}collective_without_any_answer_fails_and_says_which_node_and_why"),
    ),
    "B4.16": Promise(
        "cascade asks a cheap model, judges, asks a premium one if needed.",
        (CHEAP, PREMIUM, f"{TOOLS}cascade_falls_back_on_the_other_answer_when_one_model_fails"),
    ),
    "B4.17": Promise("plan is sequential.", (STEPS,)),
    "B4.18": Promise("swarm is a DAG in waves.", (SWARM,)),
    "B4.19": Promise(
        "run_create takes the design's arguments and answers run_id, status, created_at, estimated_steps.",
        (
            SEVEN,
            AT_ONCE,
            f"{TOOLS}a_bad_call_gets_a_coded_error_and_no_run",
            f"{TOOLS}a_role_of_the_project_or_words_of_the_caller_reach_every_node",
            f"{TOOLS}answers_are_merged_in_the_style_and_by_the_model_that_was_asked_for",
            f"{TOOLS}context_reaches_every_node",
        ),
    ),
    "B4.20": Promise("run_status answers status, progress, wave, last event and time.", (STATUS, WAITED)),
    "B4.21": Promise(
        "run_result answers the merged output, summary, artifacts, cost and, asked for, raw outputs.",
        (RESULT, f"{TOOLS}raw_outputs_come_on_request_cut_at_twelve_thousand_characters"),
    ),
    "B4.22": Promise("run_cancel answers canceling or canceled.", (CANCELED, CANCELED_QUEUED, CONFLICT)),
    "B4.23": Promise(
        "run_list answers runs by status, up to a limit.",
        (f"{TOOLS}runs_are_listed_newest_first_by_status_and_up_to_a_limit",),
    ),
    "B4.24": Promise(
        "artifact_get answers type, content and metadata.",
        (ARTIFACT, f"{TOOLS}a_long_artifact_is_read_in_pieces_that_make_up_the_whole"),
    ),
    "B4.25": Promise(
        "health answers five booleans.", (f"{TOOLS}health_has_the_five_booleans_and_says_why_one_is_false",)
    ),
    "B4.26": Promise(
        "The tables runs, nodes, events and artifacts have the listed columns.",
        (f"{TOOLS}the_database_has_every_table_and_column_of_the_design", RAW),
    ),
    "B4.27": Promise("Files lie where the design puts them.", (RAW, ARTIFACT)),
    "B4.28": Promise("States are queued, running, retry_pending and the terminal ones.", (PENDING, HISTORY)),
    "B4.29": Promise(
        "429, 5xx and network faults are retried with bounded exponential backoff.",
        (
            RETRIED,
            REFUSED,
            f"{LIMITS}a_node_is_tried_three_times_at_most",
            f"{LIMITS}a_retry_after_beyond_the_runs_time_fails_at_once",
        ),
    ),
    "B4.30": Promise("Parallel runs and nodes of a run are bounded.", (RUNS, NODES)),
    "B4.31": Promise("Runs that have not ended go on at the next start.", (KILLED, FAULTS)),
    "B4.32": Promise(
        "Transitions are idempotent.",
        (f"{TRANSITIONS}whoever_lost_the_run_changes_nothing", KILLED, ONCE_MORE),
    ),
    "B4.33": Promise("Nodes and runs have a time limit.", (NODE_TIME, RUN_TIME)),
    "B4.34": Promise(
        "A key is required to execute.",
        (
            KEYLESS,
            f"{LIMITS}a_key_may_stand_in_a_file_of_the_home_that_is_the_users_alone",
        ),
    ),
    "B4.35": Promise(
        "MAX_USD_PER_RUN stops a run softly.",
        (SOFT_STOP, CEILING, f"{LIMITS}a_run_whose_first_node_does_not_fit_its_budget_fails_unpaid"),
    ),
    "B4.36": Promise(
        "Models can be allowed and denied.",
        (
            f"{LIMITS}only_models_that_are_allowed_are_asked_whatever_the_planner_says",
            f"{LIMITS}a_model_that_is_named_and_not_allowed_is_refused_at_once",
        ),
    ),
    "B4.37": Promise(
        "Prompts and answers are capped.",
        (
            f"{LIMITS}prompts_and_answers_are_capped",
            f"{LIMITS}an_answer_cut_at_the_limit_of_tokens_is_done_and_marked",
        ),
    ),
    "B4.38": Promise(
        "Artifacts can be redacted.",
        (f"{LIMITS}artifacts_are_redacted_where_that_is_asked_for_and_left_alone_where_not",),
    ),
    "B4.39": Promise("The master reads the merged output first.", (RESULT,)),
    "B4.40": Promise("Raw outputs can always be reached.", (RAW, ARTIFACT)),
    "B4.41": Promise("Nothing blocks the master.", (AT_ONCE, WAITED)),
    "B4.42": Promise(
        "Errors say which node and model, the retry state and the next step.", (NAMES_NODE, REFUSED, RETRIED)
    ),
    "B4.43": Promise(
        "The variables of the design hold, with its defaults.",
        (
            f"{LIMITS}a_wrong_variable_is_named_and_nothing_is_created",
            f"{LIMITS}the_settings_of_a_run_are_those_it_was_created_with",
            "unit/spawn/test_run_settings.py::test_without_variables_the_defaults_of_the_design_hold",
        ),
    ),
    "B4.44": Promise(
        "Schemas, integration and failure paths are tested.",
        (f"{TOOLS}a_bad_call_gets_a_coded_error_and_no_run", FAULTS, f"{TOOLS}an_unknown_run_is_told_by_its_code"),
    ),
    "B4.45": Promise(
        "Merge model, gate and redaction are as C36 decides.",
        (
            f"{TOOLS}answers_are_merged_in_the_style_and_by_the_model_that_was_asked_for",
            f"{TOOLS}cascades_evaluator_has_the_second_word",
            f"{LIMITS}the_key_is_in_no_file_event_answer_or_log",
        ),
    ),
    "SPAWN1": Promise(
        "Each fault of the model API, in each mode, with a kill at each step, ends in a defined state, paid once.",
        (KILLED, FAULTS, f"{MATRIX}the_whole_matrix_with_a_kill_at_each_passing_of_each_step", ONCE_MORE),
    ),
    "SPAWN2": Promise(
        "A home of the original tool is copied and upgraded in one transaction; its unfinished runs have failed.",
        (
            f"{UPGRADE}an_old_home_is_copied_and_upgraded_and_its_unfinished_runs_have_failed",
            f"{UPGRADE}killed_at_any_step_the_next_opening_ends_right_with_one_copy",
        ),
    ),
    "SPAWN3": Promise(
        "Fifty queued runs, 200 nodes, answers of 2 MB and malformed plans are served.",
        (
            f"{LIMITS}fifty_runs_at_once_are_all_done_in_their_order",
            f"{TOOLS}a_malformed_plan_of_the_api_is_mended_or_replaced_and_that_is_said",
            f"{TOOLS}a_long_artifact_is_read_in_pieces_that_make_up_the_whole",
        ),
        "measured: overhead of a node, wall time against the critical path, resume: `python -m benchmarks spawn`",
    ),
    "SPAWN4": Promise(
        "The events of a run are a resource with dense numbers.",
        (
            f"{LIMITS}the_events_of_a_run_are_a_resource_with_dense_numbers",
            f"{LIMITS}a_subscriber_is_told_when_a_run_moves",
        ),
    ),
    "SPAWN5": Promise(
        "Costs are exact: the answer's own, then prices, then the reservation; impossible ones are not believed.",
        (
            f"{LIMITS}a_cost_comes_from_the_answer_first_then_from_the_prices_then_from_the_reservation",
            f"{LIMITS}a_cost_that_cannot_be_is_not_believed",
            f"{LIMITS}attempts_that_failed_count_too_and_nothing_counts_twice",
            f"{COSTS}what_nobody_reported_is_apart_from_what_was_reported_and_running_attempts_are_neither",
        ),
    ),
    "SPAWN6": Promise(
        "A run works on any server of chat/completions: its only, a configured or a named model answers.",
        (
            f"{SERVERS}the_only_model_of_a_server_answers_whatever_is_unknown_of_it",
            f"{SERVERS}the_model_that_is_configured_or_named_or_left_answers",
            f"{SERVERS}without_a_list_the_configured_model_answers",
            f"{SERVERS}between_two_models_nothing_decides_and_the_failure_says_what_is_missing_and_what_changes_it",
            f"{SERVERS}what_is_reserved_for_a_model_without_a_price_is_by_the_conservative_table",
            f"{LIMITS}models_may_be_named_in_the_call_and_are_checked_at_once",
        ),
    ),
}
