"""The manifest: every promise of the requirements, in one sentence, and the tests that would fail without it.

Ids are those of the requirements' list (B1.1 to B1.62, B2.1 to B2.39) and of the acceptance criteria (AC1 to AC5). A promise that
no test holds says why: ``deferred`` to a later issue, ``out of scope``, or ``measured`` by a benchmark.
`tests/unit/test_manifest.py` compares all of it with the tests that exist.
"""

from __future__ import annotations

from typing import NamedTuple


class Promise(NamedTuple):
    """What is promised, the node ids below ``tests/`` that hold it, and why there is none or not more."""

    behaviour: str
    tests: tuple[str, ...] = ()
    reason: str = ""


AC1 = "acceptance/test_ac1_panes.py::test_"
AC2 = "acceptance/test_ac2_queue.py::test_"
AC3 = "acceptance/test_ac3_waiting.py::test_"
AC4 = "acceptance/test_ac4_cancel.py::test_"
AC5 = "acceptance/test_ac5_purity.py::test_"
BAD = "acceptance/test_bad_input.py::test_"
FILES = "acceptance/test_files.py::test_"
IDENTITY = "acceptance/test_identity.py::test_"
PROTOCOL = "acceptance/test_protocol.py::test_"
DELIVERY = "unit/team/roster/test_delivery.py::test_"
PANES = "integration/test_panes.py::test_"
NOTICES = "unit/team/people/test_notifications.py::test_"
WORKER = "integration/test_worker.py::test_"
STATE = "unit/core/test_state.py::test_"
PROMPTS = "unit/core/test_prompts.py::test_"
DOCS = "unit/test_docs.py::test_"
ARCHITECTURE = "unit/test_architecture.py::test_"
MANIFEST = "unit/test_manifest.py::test_"
ENGINES = "unit/engines/test_table.py::test_"
SETUP = "unit/setup/test_registration.py::test_"
HOOK = "unit/test_hook.py::test_"
SCREENS = "unit/team/life/test_screen_watch.py::test_"
BLOCKED = "integration/test_blocked.py::test_"
PARKED = "unit/team/wake/test_parking_words.py::test_"
WOKEN = "unit/team/wake/test_paste_wake.py::test_"
LIVE = "e2e/test_doctor.py::test_"
TEAM = "e2e/test_team.py::test_"
REAL = {kind: f"e2e/test_{kind}.py::test_" for kind in ("gemini", "claude", "codex", "opencode")}
LIVES = tuple(f"{path}an_agents_whole_life" for path in REAL.values())
STRANGERS = tuple(f"{path}as_an_unprivileged_user_with_the_key_in_the_shell_alone" for path in REAL.values())
LIFE = "crash/test_lives.py::test_"
AGAIN = "unit/core/test_supervision.py::test_"
LATE = "unit/team/life/test_deadlines.py::test_"
UP = "integration/test_up_down.py::test_"
MASTER = "integration/test_master_exit.py::test_"
GC = "integration/test_gc.py::test_"
TEMPORARY = "integration/test_temporary_directories.py::test_"
RUN_DIRECTORIES = "unit/edge/test_run_directories.py::test_"
FIX = "integration/test_fix.py::test_"
CACHE = "unit/team/roster/test_checkpoints.py::test_"
TREES = "integration/test_worktrees.py::test_"
TOP = "integration/test_top.py::test_"
REPORT = "unit/faces/test_report.py::test_"
TIMELINE = "unit/faces/test_timeline.py::test_"
VERIFY = "unit/team/recovery/test_verification.py::test_"
WORLD = "crash/test_world_"
DAMAGE = "property/test_journal_damage.py::test_"
MATRIX = "crash/test_matrix_daemon.py::test_"
MODEL = "property/test_protocol_model.py::test_the_core_answers_as_the_model_of_the_protocol_does"
HISTORY = "property/test_state_machine.py::test_any_history_keeps_fifo_one_lease_and_exactly_one_end"

SQUADS = "acceptance/test_squads.py::test_"
ROLES = "unit/roles/test_catalogue.py::test_"
TEMPLATE = "unit/squad/test_command_template.py::test_"
HOSTILE = "integration/test_squad_hostile.py::test_"
SQUAD_CRASH = "integration/test_squad_crash.py::test_"

THREE_PANES = f"{AC1}three_agents_get_three_panes_in_the_masters_window_and_the_users_panes_stay"
TEN_TASKS = f"{AC2}ten_tasks_of_two_clients_with_duplicates_end_in_ten_events_in_order_and_never_overlap"
RUNNING_CANCEL = f"{AC4}a_running_task_is_canceled_at_the_workers_next_call_and_a_queued_one_never_reaches_it"
TOLD_CANCEL = f"{AC4}an_agent_learns_of_a_cancel_from_every_answer_and_may_end_it_as_canceled_error"
SEEN_CANCEL = f"{AC4}a_cancel_is_in_every_view_while_the_agent_has_not_answered_and_nothing_is_killed"
LOOP = f"{AC3}a_wait_returns_by_its_timeout_with_a_fresh_cursor_and_the_next_one_gets_the_task"
DELETE = f"{AC4}deleting_asks_first_and_force_needs_to_be_confirmed"
MASTERS_BAD = f"{BAD}a_masters_bad_call_gets_a_coded_error_and_nothing_is_written"
AGENTS_BAD = f"{BAD}an_agents_bad_call_gets_a_coded_error_and_nothing_is_written"
SCHEMAS = f"{PROTOCOL}what_the_tools_answer_is_what_their_output_schemas_say"
HANDSHAKES = f"{PROTOCOL}each_handshake_version_is_spoken_with_all_that_is_offered"
MODERN = f"{PROTOCOL}the_modern_era_is_spoken_with_all_that_is_offered"
DENSE = f"{FILES}each_log_is_dense_and_rises_in_time_and_the_broadcast_repeats_what_ended_and_changed"
FITS = f"{FILES}every_file_and_record_fits_its_model_and_its_published_schema"
CREATED = f"{FILES}what_agent_create_names_exists_and_lies_in_the_project"
RELAUNCH = f"{FILES}a_lost_worker_is_launched_again_and_its_task_runs_again_as_the_policy_says"
TWO_TOOLS = f"{IDENTITY}an_agents_connection_offers_its_two_tools_and_no_resources"
EARLY = f"{AC2}a_position_counts_the_unfinished_tasks_and_tasks_may_be_queued_before_the_agent_is_ready"
POLLS = f"{PROTOCOL}long_polls_of_the_master_return_with_news_or_by_their_time"

PROMISES: dict[str, Promise] = {
    "B1.1": Promise(
        "A master creates sub-agents as panes of its window over MCP, queues work, and collects results as events.",
        (THREE_PANES, TEN_TASKS),
    ),
    "B1.2": Promise("Agents in tmux can be created, deleted, listed and looked at.", (THREE_PANES, SCHEMAS, DELETE)),
    "B1.3": Promise(
        "Each agent has a FIFO queue, works on one task at a time, and cancels softly.",
        (TEN_TASKS, RUNNING_CANCEL, HISTORY),
    ),
    "B1.4": Promise(
        "Agents pull by repeated wait_for_command with a timeout, never by an endless block.",
        (LOOP, f"{DELIVERY}a_wait_ends_at_its_timeout_and_not_before"),
    ),
    "B1.5": Promise(
        "Events stand in an outbox per agent and a broadcast per run, artifacts in files.",
        (FITS, DENSE, CREATED, f"{FILES}without_a_daemon_the_command_line_reads_the_same_facts_from_the_files"),
    ),
    "B1.6": Promise(
        "Another terminal than tmux can take its place later: only one layer knows tmux.",
        (f"{ARCHITECTURE}every_import_is_in_the_row_of_its_package",),
        "out of scope: a backend other than tmux in version 1; the seam is the package tmux",
    ),
    "B1.7": Promise(
        "Agents share nothing but files and events.",
        (f"{IDENTITY}an_agent_may_not_speak_for_another",),
        "out of scope: implicit shared memory; there is none",
    ),
    "B1.8": Promise(
        "Registered as a stdio server, it shows tools, resources and prompts in every era of the protocol.",
        (
            HANDSHAKES,
            MODERN,
            f"{DOCS}toml_examples_are_settings_that_load_or_registrations_of_known_tools",
            f"{PROTOCOL}the_tools_are_described_so_that_every_client_can_use_them",
        ),
    ),
    "B1.9": Promise(
        "Creating makes the pane, starts the program, and hands out tasks only after its ready event.",
        (EARLY, THREE_PANES),
    ),
    "B1.10": Promise("A task goes enqueue, wait, ack, progress, result.", (LOOP, TEN_TASKS)),
    "B1.11": Promise("The master follows by events_read and by resources.", (TEN_TASKS, HANDSHAKES, MODERN)),
    "B1.12": Promise(
        "A crash is noticed; the agent is restarted and its task queued again, as the policy says.",
        (
            RELAUNCH,
            f"{AC1}a_user_who_kills_an_agents_pane_by_hand_finds_that_said_and_the_rest_of_the_team_at_work",
            f"{AC1}the_pane_of_a_shell_agent_shows_what_it_does_now",
            f"{AC3}the_real_worker_goes_on_after_a_killed_daemon_and_runs_each_task_once",
        ),
    ),
    "B1.13": Promise(
        "Trust and confirmation are documented as they are.",
        (f"{MANIFEST}the_trust_policy_names_what_guards_the_user",),
    ),
    "B1.14": Promise(
        "Panes come only in the session and window of the master's own pane.",
        (
            THREE_PANES,
            f"{AC1}the_master_is_found_by_the_pane_its_process_runs_in_and_not_by_a_strangers_variable",
            f"{AC1}two_masters_in_two_windows_of_one_project_lead_two_teams_apart",
            f"{AC1}a_master_in_a_nested_tmux_gets_its_panes_there_and_the_outer_one_is_not_touched",
            f"{AC1}a_masters_pane_that_moves_to_another_window_gets_its_next_agents_there",
        ),
    ),
    "B1.15": Promise(
        "Outside tmux a session is made exactly once and used as the target.",
        (
            f"{AC1}outside_tmux_two_masters_at_once_get_one_session_which_ends_with_the_last_agent",
            f"{AC1}the_session_outside_tmux_shows_its_own_team_beside_another",
            f"{AC1}a_create_that_fails_outside_tmux_leaves_no_session",
        ),
    ),
    "B1.16": Promise(
        "The user's panes are never killed, moved, renamed or given focus.",
        (
            THREE_PANES,
            f"{AC1}a_window_too_small_is_refused_and_nothing_is_written",
            f"{AC1}a_window_that_gets_no_agent_keeps_its_rows",
            f"{AC1}a_zoomed_pane_stays_zoomed_and_the_agents_come_behind_it",
            f"{AC1}window_options_are_put_back_after_kill_9_of_the_daemon_a_restart_and_the_last_delete",
            f"{PANES}other_panes_of_the_user_keep_id_order_size_title_and_focus",
            f"{PANES}a_large_pane_follows_without_moving_a_pane_or_the_active_one",
            f"{AC1}agents_of_a_further_window_have_their_labels_and_it_is_left_as_a_user_may_need_it",
        ),
    ),
    "B1.17": Promise(
        "agent_create returns after pane, program, instructions and the ready handshake, or says what is missing.",
        (THREE_PANES, EARLY, f"{PROTOCOL}progress_tells_what_happens_while_agents_start_and_only_rises"),
    ),
    "B1.18": Promise("Deleting asks the agent first; force is separate and must be confirmed.", (DELETE,)),
    "B1.19": Promise(
        "Listing and looking tell id, role, status, pane, queue depth, running task and last event.",
        (THREE_PANES, SEEN_CANCEL),
    ),
    "B1.20": Promise(
        "One task runs, the rest wait in order.",
        (TEN_TASKS, HISTORY, f"{STATE}tasks_are_handed_out_in_the_order_they_came"),
    ),
    "B1.21": Promise("Every task has an id and exactly one terminal event.", (TEN_TASKS, DENSE, HISTORY)),
    "B1.22": Promise("task_enqueue answers the position in the queue.", (EARLY, TEN_TASKS)),
    "B1.23": Promise("task_cancel records cancel_requested and kills nothing.", (SEEN_CANCEL, RUNNING_CANCEL)),
    "B1.24": Promise(
        "The agent stops at its next checkpoint and ends in canceled, or error with the flag.",
        (RUNNING_CANCEL, TOLD_CANCEL),
    ),
    "B1.25": Promise(
        "Agents loop over long polls.", (LOOP, f"{DELIVERY}a_waiting_agent_gets_a_task_as_soon_as_it_is_enqueued")
    ),
    "B1.26": Promise(
        "Ack, work, a terminal event with done, wait again.", (LOOP, f"{STATE}done_belongs_to_terminal_events_only")
    ),
    "B1.27": Promise(
        "The agent's instructions hold the loop, JSON, FIFO, soft cancel and the artifacts path.",
        (f"{PROMPTS}the_agents_prompt_holds_the_rules_the_requirements_name", TWO_TOOLS),
    ),
    "B1.28": Promise("The outbox is append-only with a rising seq.", (DENSE,)),
    "B1.29": Promise("The run's broadcast has at least all terminal events.", (DENSE, TEN_TASKS)),
    "B1.30": Promise(
        "events_read returns only what is behind since_seq.",
        (TEN_TASKS, f"{DELIVERY}events_read_gives_the_delta_and_waits_for_news"),
    ),
    "B1.31": Promise(
        "Sub-agents get wait_for_command and emit_event and no more.",
        (
            TWO_TOOLS,
            f"{ARCHITECTURE}the_agents_tools_never_reach_code_that_creates_or_kills_agents",
            f"{SETUP}print_shows_every_snippet_with_the_two_tools_of_an_agent_and_writes_nothing",
        ),
    ),
    "B1.32": Promise("The transport is stdio.", (HANDSHAKES, MODERN)),
    "B1.33": Promise(
        "stdout carries MCP messages only; logs go to stderr or a file.",
        (f"{AC5}noise_of_imports_and_bad_lines_of_a_client_never_reach_stdout",),
    ),
    "B1.34": Promise(
        "The time to create three agents is measured.",
        (),
        "measured: make bench prints agents_create of three until the third ready, beside its target",
    ),
    "B1.35": Promise(
        "events_read answers from any log within a second: pages, bounded in number and bytes.",
        (
            f"{PROTOCOL}answers_to_models_are_paged_by_size_and_a_large_payload_is_cut",
            "unit/journal/test_log_reader.py::test_the_cost_of_a_read_does_not_grow_with_the_log",
            TEN_TASKS,
        ),
        "measured: make bench prints the time of a read from a million records",
    ),
    "B1.36": Promise(
        "Heartbeats and progress are optional and taken.",
        (
            LOOP,
            f"{WORKER}progress_tells_what_is_new",
            f"{LATE}a_screen_that_moves_is_not_stalled_and_takes_the_word_back",
        ),
    ),
    "B1.37": Promise(
        "A process that dies is restarted by policy, its running task queued again or failed. What a human does in a "
        "pane has a policy of its own.",
        (
            RELAUNCH,
            f"{STATE}restart_follows_the_policy",
            f"{STATE}on_lost_fail_ends_the_lease_in_error_at_once",
            f"{AC1}an_agent_that_shall_not_be_restarted_fails_with_its_pane_and_its_task_is_told_of",
            f"{AC1}ctrl_c_in_the_pane_of_a_shell_agent_cancels_its_task_and_the_agent_goes_on_with_its_queue",
            f"{AC1}closing_the_pane_of_a_shell_agent_cancels_its_task_and_its_queue_goes_on_in_a_new_pane",
        ),
    ),
    "B1.38": Promise(
        "Files are reached only below the project, links included.",
        (MASTERS_BAD, f"{BAD}a_resource_that_is_none_is_an_error_with_a_code"),
    ),
    "B1.39": Promise("Destructive tools are guarded by the server itself.", (DELETE, MASTERS_BAD)),
    "B1.40": Promise("No transport over the network.", (), "out of scope: SSE and HTTP"),
    "B1.41": Promise(
        "An agent's meta.json holds what agent_get answers.",
        (
            "acceptance/test_meta_files.py::test_the_file_and_agent_get_have_the_same_fields_with_the_same_values",
            FITS,
            CREATED,
        ),
    ),
    "B1.42": Promise("An agent's inbox.jsonl tells what was asked of it.", (FITS, DENSE)),
    "B1.43": Promise("An agent's outbox.jsonl tells what happened with it.", (FITS, DENSE)),
    "B1.44": Promise("An agent's artifacts/ holds the files it leaves.", (CREATED, HANDSHAKES)),
    "B1.45": Promise("A run's broadcast.jsonl stands below .agents/run/.", (FITS, DENSE)),
    "B1.46": Promise(
        "agent_create takes name, role, cwd, env, and answers id, pane and paths.",
        (
            SCHEMAS,
            CREATED,
            MASTERS_BAD,
            f"{IDENTITY}the_environment_of_an_agent_is_that_of_the_masters_cli_plus_what_the_call_adds",
        ),
    ),
    "B1.47": Promise("agent_get answers the agent's meta.", (SCHEMAS, POLLS)),
    "B1.48": Promise(
        "agent_list answers the agents of the current window.",
        (SCHEMAS, f"{AC1}two_masters_in_two_windows_of_one_project_lead_two_teams_apart"),
    ),
    "B1.49": Promise("agent_delete takes force, false by default, and answers ok.", (SCHEMAS, DELETE)),
    "B1.50": Promise("task_enqueue takes a task with id and payload and answers its position.", (SCHEMAS, TEN_TASKS)),
    "B1.51": Promise("task_cancel answers ok and cancel_requested.", (SCHEMAS, RUNNING_CANCEL)),
    "B1.52": Promise(
        "events_read takes since_seq and max_events, and answers events and last_seq.", (SCHEMAS, TEN_TASKS, POLLS)
    ),
    "B1.53": Promise("wait_for_command answers a command or a timeout.", (LOOP, AGENTS_BAD)),
    "B1.54": Promise("emit_event takes type, task, payload and done, and answers ok.", (LOOP, AGENTS_BAD)),
    "B1.55": Promise("agent://<id>/outbox?tail= is a resource.", (HANDSHAKES, MODERN)),
    "B1.56": Promise(
        "run://<run_id>/broadcast?tail= is a resource, with updates.",
        (
            HANDSHAKES,
            MODERN,
            f"{PROTOCOL}a_subscriber_hears_of_changes_and_once_after_a_restart",
            f"{PROTOCOL}a_listener_of_the_modern_era_hears_of_changes_and_once_after_a_restart",
        ),
    ),
    "B1.57": Promise("agent://<id>/meta is a resource.", (HANDSHAKES, MODERN)),
    "B1.58": Promise("AC1, as below.", (THREE_PANES,)),
    "B1.59": Promise("AC2, as below.", (TEN_TASKS,)),
    "B1.60": Promise("AC3, as below.", (LOOP,)),
    "B1.61": Promise("AC4, as below.", (RUNNING_CANCEL,)),
    "B1.62": Promise("AC5, as below.", (f"{AC5}the_purity_check_sees_every_kind_of_noise",)),
    "B2.1": Promise(
        "The squad toolset has exactly list_roles and start_squad_members.",
        (
            f"{SQUADS}a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode",
            f"{SQUADS}the_toolset_is_a_connections_choice",
        ),
    ),
    "B2.2": Promise(
        "list_roles takes nothing and answers id, name and description of each role, and nothing else.",
        (
            f"{SQUADS}list_roles_names_every_role_and_nothing_of_engine_state_or_workspace",
            f"{SQUADS}a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode",
        ),
    ),
    "B2.3": Promise(
        "Roles are the Markdown files of the directory; the id is the file's stem.",
        (
            f"{SQUADS}list_roles_names_every_role_and_nothing_of_engine_state_or_workspace",
            f"{SQUADS}a_roles_directory_is_the_only_source_when_it_is_named",
        ),
    ),
    "B2.4": Promise(
        "A member has roleId, task, cwd and, stateful, chatId; metadata is accepted.",
        (
            f"{SQUADS}a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode",
            f"{SQUADS}what_the_original_takes_besides_is_accepted_and_not_used",
            f"{SQUADS}a_stateless_connection_knows_no_chats",
        ),
    ),
    "B2.5": Promise(
        "The call blocks until all members have ended, or says which still run.",
        (
            f"{SQUADS}members_run_together_up_to_the_cap_and_are_answered_in_order",
            f"{SQUADS}what_has_not_ended_in_time_is_running_and_is_collected_later",
            f"{SQUADS}an_unknown_squad_is_told",
            f"{SQUADS}a_client_whose_limit_is_known_is_answered_before_it",
            f"{SQUADS}progress_tells_how_far_the_members_are",
        ),
    ),
    "B2.6": Promise(
        "The answer has squadId and per member its ids, cwd, status and raw outputs.",
        (
            f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",
            f"{SQUADS}ids_are_unique_and_each_member_is_named_by_its_squad_and_place",
            f"{SQUADS}a_member_works_in_its_directory_which_is_echoed_as_given",
            f"{SQUADS}an_output_too_long_to_be_read_is_cut_and_all_of_it_is_in_its_file",
            f"{SQUADS}what_squads_answer_fits_the_schemas_they_publish",
        ),
    ),
    "B2.7": Promise(
        "Stateless, no chatId is anywhere.",
        (
            f"{SQUADS}a_stateless_connection_knows_no_chats",
            f"{SQUADS}a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode",
            f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",
        ),
    ),
    "B2.8": Promise(
        "The schema follows the mode of the connection.",
        (f"{SQUADS}a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode",),
    ),
    "B2.9": Promise(
        "Stateless, every run gets role and task.",
        (f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",),
    ),
    "B2.10": Promise(
        "Stateful without chatId a chat is begun, with role and initial task.",
        (
            f"{SQUADS}a_new_chat_gets_role_and_initial_task_and_its_id_is_answered",
            "e2e/test_squads.py::test_two_members_at_once_without_chats_and_with_chats_that_go_on",
        ),
    ),
    "B2.11": Promise(
        "With a chatId the chat goes on, with the task alone.",
        (
            f"{SQUADS}a_chat_that_goes_on_gets_the_task_alone",
            f"{SQUADS}a_chat_id_that_could_be_an_option_or_anything_else_is_refused",
            "e2e/test_squads.py::test_two_members_at_once_without_chats_and_with_chats_that_go_on",
        ),
    ),
    "B2.12": Promise(
        "The chat's id is what create-chat prints, trimmed.",
        (
            f"{SQUADS}a_new_chat_gets_role_and_initial_task_and_its_id_is_answered",
            f"{SQUADS}a_chat_that_cannot_be_made_is_that_members_error_with_its_stderr_and_no_id",
        ),
    ),
    "B2.13": Promise(
        "A chat that cannot be begun is that member's error.",
        (f"{SQUADS}a_chat_that_cannot_be_made_is_that_members_error_with_its_stderr_and_no_id",),
    ),
    "B2.14": Promise(
        "Every prompt ends in the footer.",
        (
            f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",
            f"{SQUADS}a_new_chat_gets_role_and_initial_task_and_its_id_is_answered",
            f"{SQUADS}a_chat_that_goes_on_gets_the_task_alone",
        ),
    ),
    "B2.15": Promise(
        "A stateless prompt has the sections Role and Task.",
        (f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",),
    ),
    "B2.16": Promise(
        "A new chat's prompt says Initial Task.",
        (f"{SQUADS}a_new_chat_gets_role_and_initial_task_and_its_id_is_answered",),
    ),
    "B2.17": Promise(
        "A chat that goes on gets Task only.",
        (f"{SQUADS}a_chat_that_goes_on_gets_the_task_alone",),
    ),
    "B2.18": Promise(
        "The footer is the blueprint's.",
        (f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",),
    ),
    "B2.19": Promise(
        "Templates know conditions and values.",
        (
            f"{SQUADS}a_new_chat_gets_role_and_initial_task_and_its_id_is_answered",
            f"{SQUADS}a_chat_that_goes_on_gets_the_task_alone",
            f"{SQUADS}a_template_knows_every_variable_and_gives_the_prompt_by_file_or_stdin",
        ),
    ),
    "B2.20": Promise(
        "Templates know prompt, chatId, cwd, roleId and task.",
        (f"{SQUADS}a_template_knows_every_variable_and_gives_the_prompt_by_file_or_stdin",),
    ),
    "B2.21": Promise(
        "Templates are files in templates/ or where the variables say.",
        (f"{SQUADS}template_files_stand_where_the_variables_or_custom_put_them",),
    ),
    "B2.22": Promise(
        "A template gives the arguments, the engine's command comes before them.",
        (
            f"{SQUADS}the_engines_command_is_put_first_or_in_the_place_of_its_own_name",
            f"{SQUADS}a_prompt_arrives_byte_for_byte_in_the_place_its_template_gives_it",
        ),
    ),
    "B2.23": Promise(
        "Quotes and continued lines are split as a shell would.",
        (
            f"{SQUADS}a_prompt_arrives_byte_for_byte_in_the_place_its_template_gives_it",
            f"{TEMPLATE}text_is_parted_as_a_shell_would_but_expands_nothing",
        ),
    ),
    "B2.24": Promise(
        "A process is spawned in its directory, with a time limit and captured outputs.",
        (
            f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",
            f"{SQUADS}a_member_works_in_its_directory_which_is_echoed_as_given",
            f"{SQUADS}one_members_failure_is_its_own",
            f"{SQUADS}a_member_has_the_environment_of_its_client_and_of_the_servers_own_block",
        ),
    ),
    "B2.25": Promise(
        "Exit 0 is completed, anything else error, out of time timeout; outputs are not parsed.",
        (
            f"{SQUADS}one_members_failure_is_its_own",
            f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",
        ),
    ),
    "B2.26": Promise(
        "A cwd is resolved against the project's root.",
        (
            f"{SQUADS}a_member_works_in_its_directory_which_is_echoed_as_given",
            f"{SQUADS}what_is_wrong_is_one_technical_error_before_anything_is_spawned",
        ),
    ),
    "B2.27": Promise(
        "Technical errors are told before anything is spawned; a failed spawn is its member's.",
        (
            f"{SQUADS}what_is_wrong_is_one_technical_error_before_anything_is_spawned",
            f"{SQUADS}a_member_that_cannot_be_spawned_is_an_error_with_the_reason_in_its_stderr",
            f"{SQUADS}a_call_of_another_shape_is_refused",
        ),
    ),
    "B2.28": Promise(
        "Problems of the environment are the member's to report, as its prompt says.",
        (f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",),
    ),
    "B2.29": Promise(
        "Every variable works, with its default and its alias.",
        (
            f"{SQUADS}template_files_stand_where_the_variables_or_custom_put_them",
            f"{SQUADS}a_roles_directory_is_the_only_source_when_it_is_named",
            f"{SQUADS}how_many_run_at_once_is_the_connections_choice",
            f"{SQUADS}one_members_failure_is_its_own",
            f"{SQUADS}what_is_wrong_is_one_technical_error_before_anything_is_spawned",
            f"{SQUADS}a_template_knows_every_variable_and_gives_the_prompt_by_file_or_stdin",
        ),
    ),
    "B2.30": Promise(
        "Settings come from the environment of the connection.",
        (
            f"{SQUADS}how_many_run_at_once_is_the_connections_choice",
            f"{SQUADS}template_files_stand_where_the_variables_or_custom_put_them",
        ),
    ),
    "B2.31": Promise(
        "It is an MCP server over stdio that serves until its client goes.",
        (
            f"{SQUADS}a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode",
            f"{SQUADS}a_dropped_connection_wastes_no_paid_work",
        ),
    ),
    "B2.32": Promise(
        "The core knows no transport.",
        (f"{ARCHITECTURE}every_import_is_in_the_row_of_its_package",),
    ),
    "B2.33": Promise(
        "Calls of several orchestrators do not disturb each other; only a chat is shared.",
        (
            f"{SQUADS}ids_are_unique_and_each_member_is_named_by_its_squad_and_place",
            f"{SQUADS}two_members_of_one_chat_take_turns",
        ),
    ),
    "B2.34": Promise(
        "Roles reflect their files as they are now.",
        (f"{SQUADS}roles_are_read_anew_when_their_files_change_and_a_broken_one_is_named",),
    ),
    "B2.35": Promise(
        "Any CLI can be the engine.",
        (
            f"{SQUADS}the_engines_command_is_put_first_or_in_the_place_of_its_own_name",
            "e2e/test_squads.py::test_two_members_at_once_without_chats_and_with_chats_that_go_on",
        ),
    ),
    "B2.36": Promise(
        "Example roles are shipped, with name and description.",
        (f"{SQUADS}list_roles_names_every_role_and_nothing_of_engine_state_or_workspace",),
    ),
    "B2.37": Promise(
        "Roles, prompts, templates, runner and service have tests of their own.",
        (
            f"{ROLES}any_bytes_make_a_role_or_a_broken_file_that_json_can_hold",
            f"{TEMPLATE}text_is_parted_as_a_shell_would_but_expands_nothing",
            f"{SQUADS}one_members_failure_is_its_own",
            f"{SQUADS}a_new_chat_gets_role_and_initial_task_and_its_id_is_answered",
        ),
    ),
    "B2.38": Promise(
        "The whole is tested over stdio and with real CLIs.",
        (
            f"{SQUADS}a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim",
            "e2e/test_squads.py::test_two_members_at_once_without_chats_and_with_chats_that_go_on",
        ),
    ),
    "B2.39": Promise(
        "Names and commits follow this project's own rules.",
        (f"{ARCHITECTURE}every_import_is_in_the_row_of_its_package",),
        "out of scope: the coding standards of a TypeScript project; ours are held by make check",
    ),
    "AC1": Promise(
        "Three agents are three panes of the master's window, each with exactly one ready record.",
        (
            THREE_PANES,
            f"{AC1}a_bad_entry_of_a_team_fails_alone_and_panes_come_before_programs",
            f"{AC1}outside_tmux_two_masters_at_once_get_one_session_which_ends_with_the_last_agent",
        ),
    ),
    "AC2": Promise(
        "Ten tasks end in ten terminal events in FIFO order and never overlap.",
        (TEN_TASKS, f"{AC2}the_overlap_check_sees_an_overlap", HISTORY),
    ),
    "AC3": Promise(
        "wait_for_command returns in time and loops; a vanished client or daemon costs nothing and restarts no clock.",
        (
            LOOP,
            f"{DELIVERY}a_wait_ends_at_its_timeout_and_not_before",
            f"{AC3}a_client_that_vanishes_in_its_wait_or_with_a_task_in_hand_loses_nothing",
            f"{AC3}a_daemon_killed_in_a_wait_does_not_start_its_clock_anew_and_the_wait_is_answered_once",
            f"{AC3}a_daemon_killed_in_a_wait_hands_the_task_to_the_same_request_once",
            f"{AC3}a_second_wait_of_one_agent_ends_the_first_with_a_timeout",
        ),
    ),
    "AC4": Promise(
        "A cancel is observable at once and ends in one canceled at the agent's next checkpoint.",
        (RUNNING_CANCEL, SEEN_CANCEL, TOLD_CANCEL),
    ),
    "AC5": Promise(
        "A byte on the relay's stdout that is no MCP message fails the tests.",
        (
            f"{AC5}the_purity_check_sees_every_kind_of_noise",
            f"{AC5}noise_of_imports_and_bad_lines_of_a_client_never_reach_stdout",
            f"{AC5}a_daemon_that_is_killed_again_and_again_leaves_no_trace_on_stdout_and_every_call_one_answer",
            f"{AC5}a_daemon_that_cannot_start_is_told_late_as_an_mcp_error_and_a_repair_is_noticed",
        ),
    ),
    "ENGINES1": Promise(
        "Gemini CLI, Claude Code, Codex and opencode are agents, unmodified, and no file of the user's changes.",
        (
            f"{ENGINES}a_launch_can_be_executed_and_stays_in_the_agents_directory",
            f"{ENGINES}no_secret_is_on_a_command_line_for_others_to_read",
            f"{ENGINES}approvals_are_raised_only_when_asked_for",
            *LIVES,
            *STRANGERS,
        ),
    ),
    "ENGINES2": Promise(
        "Rules, role, first message and our server reach every engine; one that does not get ready says why.",
        (
            f"{ENGINES}rules_first_message_and_server_reach_the_cli",
            "integration/test_engine_command.py::test_any_command_line_can_be_an_agent_and_is_told_rules_role_model_and_server",
            f"{SCREENS}a_cli_that_does_not_get_ready_in_time_is_failed_with_its_cause",
            f"{BLOCKED}who_waits_for_a_cli_that_does_not_get_ready_is_told_the_cause_and_nothing_is_left",
            f"{REAL['claude']}what_stops_it_before_it_begins_is_said_and_cleared_away",
            f"{REAL['codex']}what_stops_it_before_it_begins_is_said_and_cleared_away",
            f"{REAL['gemini']}what_stops_it_before_it_begins_is_said_and_cleared_away",
        ),
    ),
    "ENGINES3": Promise(
        "A parked agent costs no model request, is woken at once, and a human's draft survives every wake.",
        (
            f"{PARKED}a_park_is_ended_by_a_task_and_by_nothing_else",
            f"{PARKED}thousands_of_random_parks_lose_no_wake_and_never_say_parked_when_it_is_not",
            f"{WOKEN}nothing_is_pasted_over_anything",
            f"{HOOK}a_held_hook_fits_into_its_budget",
            "e2e/test_parking.py::test_a_parked_agent_asks_nothing_and_is_woken_by_each_task",
            "e2e/test_parking.py::test_a_draft_survives_a_wake",
            "e2e/test_parking.py::test_a_command_typed_into_a_parked_pane_runs_and_work_arrives_afterwards",
            "e2e/test_parking.py::test_an_agent_whose_conversation_was_cleared_still_knows_its_rules",
            f"{WOKEN}an_agent_that_a_hook_shows_at_its_prompt_is_woken_at_once",
        ),
    ),
    "ENGINES4": Promise(
        "A silent agent is blocked with its reason, shown everywhere, secrets masked; only a human's answer to that dialog is typed.",
        (
            f"{ENGINES}a_recorded_screen_is_explained",
            f"{BLOCKED}a_dialog_is_shown_everywhere_and_goes_away_with_the_first_call",
            f"{SCREENS}a_limit_keeps_its_end_everywhere",
            f"{PARKED}a_question_names_the_tool_and_its_input_and_a_vaguer_notice_does_not_replace_it",
            f"{PARKED}a_second_question_is_a_second_record_even_if_it_has_the_same_words",
            f"{SCREENS}what_the_clis_own_log_shows_counts_while_the_screen_explains_nothing",
            "unit/base/test_secret_masks.py::test_a_secret_is_masked",
            "unit/team/people/test_approvals.py::test_another_dialog_than_the_one_that_was_shown_gets_no_key",
            "unit/team/people/test_approvals.py::test_a_master_presses_no_key_in_the_pane_of_another_agent",
        ),
    ),
    "ENGINES5": Promise(
        "Setup registers the master, keeps every other byte, and takes back what it wrote.",
        (
            "property/test_setup_bytes.py::test_a_json_file_gets_its_bytes_back_and_keeps_all_else",
            "property/test_setup_bytes.py::test_a_toml_file_gets_its_bytes_back_and_keeps_all_else",
            f"{SETUP}a_second_run_changes_nothing_and_says_so",
            "e2e/test_setup.py::test_the_cli_connects_after_setup_and_knows_nothing_after_uninstall",
        ),
    ),
    "ENGINES6": Promise(
        "Doctor checks the installed CLIs and takes each through a task, a wake and a cancel.",
        (f"{LIVE}doctor_live_takes_each_cli_through_a_task_a_wake_and_a_cancel",),
    ),
    "ENGINES7": Promise(
        "Each real CLI leads a team in its own window; a pane that cannot be known is refused, not guessed.",
        (
            "e2e/test_world.py::test_each_cli_leads_an_agent_in_its_own_window",
            "e2e/test_world.py::test_two_codex_masters_on_one_background_process_are_refused_not_mixed_up",
            "integration/test_shared_master.py::test_the_pane_of_a_shared_background_process_is_refused_not_guessed",
        ),
    ),
    "ENGINES8": Promise(
        "A mixed team under a real master keeps every guarantee, and every misbehaviour ends as designed.",
        (
            f"{TEAM}a_team_of_all_four_does_its_tasks_for_a_real_master_and_leaves_no_trace",
            f"{TEAM}every_misbehaviour_of_a_model_ends_in_the_designed_outcome",
            f"{TEAM}the_daemon_killed_while_all_four_wait_and_while_they_are_parked_loses_nothing",
            f"{TEAM}escape_during_a_wait_hands_the_pane_to_the_human_and_the_work_still_arrives",
            f"{TEAM}a_cli_killed_in_the_middle_of_a_task_comes_back_with_its_session_and_ends_it",
        ),
    ),
    "ENGINES9": Promise(
        "A new row of the engines table is tested and documented without further code.",
        (f"{ENGINES}a_row_says_what_is_known_of_it",),
    ),
    "SUPERVISION1": Promise(
        "A status is derived and cites the records that prove it; ends of a CLI are told apart.",
        (
            f"{LIFE}an_exit_a_signal_and_a_closed_pane_are_told_apart_and_cited",
            f"{LIFE}a_stopped_process_is_said_to_be_stopped_until_it_goes_on",
            f"{LIFE}a_pid_that_belongs_to_another_program_by_now_is_left_alone",
            f"{LIFE}a_tmux_server_that_ends_outside_tmux_is_replaced_and_the_work_goes_on",
            f"{AGAIN}the_records_that_prove_a_status_are_known",
            "integration/test_why.py::test_why_cites_the_records_that_prove_it_by_file_and_line",
        ),
    ),
    "SUPERVISION2": Promise(
        "Restarts follow a policy with budget, window and growing pauses that survive the daemon; old lives are fenced.",
        (
            f"{AGAIN}it_is_restarted_as_often_as_its_budget_allows_and_then_fails",
            f"{AGAIN}the_pause_before_a_relaunch_doubles_up_to_a_minute",
            f"{LIFE}an_agent_that_dies_of_its_every_task_is_restarted_no_more_often_than_its_budget",
            f"{LIFE}a_cli_that_outlives_its_pane_is_ended_before_the_next_life_begins",
            f"{DELIVERY}a_late_end_of_an_old_life_is_refused_and_leaves_a_note_and_no_record",
            f"{MATRIX}a_daemon_killed_while_an_agent_gets_another_life_begins_it_once",
        ),
    ),
    "SUPERVISION3": Promise(
        "The task of a lost agent is requeued or failed by policy; the next attempt is told of the last.",
        (f"{LATE}each_attempt_has_its_own_time_and_the_next_is_told_of_the_last", HISTORY, MODEL),
    ),
    "SUPERVISION4": Promise(
        "Silent agents are stalled until they move; a task out of time is canceled, then its agent is launched anew.",
        (
            f"{LATE}silence_and_a_still_screen_for_so_long_is_stalled_and_a_call_ends_it",
            f"{LATE}a_task_out_of_time_is_canceled_softly_then_its_agent_must_end",
            f"{LATE}the_limit_is_the_agents_own_and_an_engine_may_ask_for_more",
        ),
    ),
    "SUPERVISION5": Promise(
        "Each rung of an end is bounded and recorded; a team comes up from a file, ends as a whole, and outlives masters.",
        (
            "integration/test_deletion.py::test_a_cli_that_heeds_nothing_gets_every_rung_in_order",
            f"{UP}up_makes_the_team_once_changes_what_it_is_told_to_and_down_ends_it",
            f"{UP}killed_half_way_and_run_again_it_is_the_same_team",
            f"{MASTER}a_master_that_is_killed_takes_its_team_with_it_if_that_is_wanted",
            f"{MASTER}a_master_that_goes_leaves_its_team_working_by_default",
            "integration/test_new_master.py::test_a_new_master_takes_the_team_over",
        ),
    ),
    "SUPERVISION6": Promise(
        "gc removes what is over and ours, run directories and what CLIs left in TMPDIR included; doctor --fix mends damaged logs by quarantine; both may be cut off anywhere.",
        (
            f"{GC}an_agent_goes_when_its_last_record_is_old_enough",
            f"{GC}a_process_that_outlived_its_agent_is_ended_and_a_reused_pid_never",
            f"{GC}a_kill_at_any_step_leaves_what_the_next_run_finishes",
            f"{TEMPORARY}what_a_cli_leaves_in_tmpdir_is_kept_over_relaunches_told_and_gone_with_its_agent",
            f"{TEMPORARY}a_daemon_killed_while_it_deletes_an_agent_leaves_nothing",
            f"{TEMPORARY}a_squad_member_has_a_directory_of_its_own_until_it_ends",
            f"{RUN_DIRECTORIES}a_directory_goes_a_day_after_its_last_daemon",
            f"{RUN_DIRECTORIES}a_stop_by_hand_keeps_it_until_the_next_boot",
            f"{FIX}a_damaged_outbox_is_kept_and_its_agent_is_failed_with_every_outcome_it_had",
            f"{FIX}a_kill_at_any_step_leaves_what_the_next_run_finishes",
            "property/test_agent_repair.py::test_flipped_and_deleted_bytes_lose_nothing_that_can_be_read",
        ),
    ),
    "SUPERVISION7": Promise(
        "Logs grow in numbered files that read as one; memory does not grow; a checkpoint is only a cache.",
        (
            f"{DAMAGE}a_cut_at_every_byte_of_a_log_of_several_files_is_located_or_a_shorter_log",
            f"{CACHE}memory_does_not_grow_with_finished_tasks",
            f"{CACHE}nothing_depends_on_the_cache",
            f"{CACHE}a_thousand_deleted_agents_hold_no_descriptors",
            "crash/test_matrix_cache.py::test_a_daemon_killed_while_it_saves_checkpoints_forgets_nothing",
        ),
        "measured: restart over 1,000,000 records, `python -m benchmarks large`",
    ),
    "SUPERVISION8": Promise(
        "An agent may have a git worktree and branch of its own, which is never removed while it holds work.",
        (
            f"{TREES}a_worktree_is_a_branch_of_its_own_from_the_main_trees_commit",
            f"{TREES}what_matches_is_copied_as_it_is_and_nothing_else",
            f"{TREES}what_is_not_committed_keeps_its_worktree",
            f"{TREES}a_merge_is_tried_without_touching_anything",
            "crash/test_matrix_worktree.py::test_a_daemon_killed_while_it_makes_a_worktree_makes_each_once",
        ),
    ),
    "SUPERVISION9": Promise(
        "A storm of kills loses and doubles nothing, by a shipped checker that finds every planted violation.",
        (
            "crash/test_storm.py::test_a_storm_of_kills_loses_nothing_doubles_nothing_and_leaves_nothing_open",
            f"{VERIFY}a_planted_violation_is_found_where_it_stands",
            f"{VERIFY}every_kind_is_planted",
        ),
    ),
    "SUPERVISION10": Promise(
        "Faults of the disk, injected and real, and power cuts lose nothing that was answered.",
        (
            "crash/test_disk_inject.py::test_a_call_that_fails_anywhere_in_a_teams_life_loses_nothing",
            "crash/test_disk_strace.py::test_a_daemon_whose_writes_and_syncs_fail_loses_nothing",
            "crash/test_disk_full.py::test_a_disk_without_room_refuses_clearly_loses_nothing_and_works_again",
            "crash/test_power_cut.py::test_a_power_cut_loses_nothing_that_was_answered",
            "crash/test_power_cut.py::test_without_syncs_a_power_cut_does_lose_what_was_answered",
        ),
    ),
    "SUPERVISION11": Promise(
        "Faults of the world and storms at the door end in a clear word, bounded cost, and a team that goes on.",
        (
            f"{WORLD}clock.py::test_any_history_under_a_mad_clock_is_the_same_as_under_a_sane_one",
            f"{WORLD}signals.py::test_a_daemon_that_stands_still_answers_everybody_afterwards",
            f"{WORLD}files.py::test_a_team_whose_files_were_removed_says_so_and_a_restart_begins_anew",
            f"{WORLD}config.py::test_whatever_becomes_of_the_file_the_last_good_configuration_stays",
            f"{WORLD}door.py::test_two_hundred_clients_at_once_are_all_served_and_leave_nothing",
            f"{WORLD}door.py::test_a_client_that_never_reads_is_read_no_more_and_costs_little",
            f"{WORLD}limits.py::test_with_a_full_process_table_calls_fail_clearly_and_work_afterwards",
            f"{WORLD}starts.py::test_a_daemon_that_dies_at_once_is_started_ever_more_slowly_by_all_together",
            f"{WORLD}wake.py::test_a_daemon_killed_between_the_nudge_and_the_call_does_not_nudge_again",
        ),
    ),
    "SUPERVISION12": Promise(
        "The core answers every call as a model of the protocol does, written from the design.", (MODEL,)
    ),
    "SQUADS1": Promise(
        "A squad survives its daemon: nothing is started twice, what is left is ended, every member is answered.",
        (
            f"{SQUAD_CRASH}a_daemon_killed_at_a_step_of_a_squad_starts_no_member_twice",
            f"{SQUAD_CRASH}members_that_outlive_a_killed_daemon_are_ended_and_said_to_be_interrupted",
            f"{SQUAD_CRASH}a_killed_daemon_leaves_another_programs_process_of_the_same_number_alone",
            f"{SQUADS}the_squads_file_fits_its_schema_at_every_step",
        ),
    ),
    "SQUADS2": Promise(
        "Only the client's own cancel ends members; nothing of a member is left running.",
        (
            f"{SQUADS}only_the_clients_own_cancel_ends_its_members",
            f"{SQUADS}a_dropped_connection_wastes_no_paid_work",
            f"{HOSTILE}children_that_stay_behind_are_ended_with_their_member_however_that_ends",
            f"{HOSTILE}children_that_multiply_until_they_are_killed_all_are",
        ),
    ),
    "SQUADS3": Promise(
        "A member's output can be watched in a pane, which harms neither the member nor the window.",
        (
            "integration/test_squad_visible.py::test_a_visible_member_is_read_in_a_pane_which_goes_with_it",
            "integration/test_member_panes.py::test_the_users_panes_stay_as_they_are",
            "integration/test_member_panes.py::test_what_a_killed_daemon_has_left_is_gone_after_the_next_ones_sweep",
        ),
        "measured: overhead of a member, 20 at once, memory beside 100 MB, `python -m benchmarks squads`",
    ),
    "INPUT1": Promise(
        "Wrong input gets a coded error, writes nothing, and the team works on.",
        (
            MASTERS_BAD,
            AGENTS_BAD,
            f"{BAD}arguments_that_are_no_object_are_an_error_of_the_protocol",
            f"{BAD}every_tool_drops_the_argument_that_gemini_adds_to_all_calls",
            f"{BAD}after_all_of_it_the_team_works_on",
            f"{BAD}a_misspelt_argument_is_named_with_the_one_that_may_be_meant",
            f"{BAD}too_large_a_payload_is_told_its_size_the_limit_and_the_place_for_it",
            f"{BAD}the_limit_of_a_payload_is_in_the_schemas_before_anybody_exceeds_it",
        ),
    ),
    "INPUT2": Promise(
        "Models are forgiven: an integer is an id, and an agent's unknown argument is named, but never ends its task.",
        (
            AGENTS_BAD,
            f"{BAD}an_integer_is_the_id_of_its_digits_everywhere",
            f"{BAD}what_an_agents_tool_does_not_know_is_named_and_the_rest_is_carried_out",
        ),
    ),
    "IDENTITY1": Promise(
        "What a connection may do follows from its process and its agent's secret; no process speaks for another agent.",
        (
            f"{IDENTITY}a_claim_without_the_right_secret_and_epoch_is_refused_and_leaves_no_record",
            f"{IDENTITY}an_agent_may_not_speak_for_another",
            f"{IDENTITY}a_master_may_not_speak_for_an_agent",
            f"{IDENTITY}a_process_in_an_agents_pane_gets_no_masters_tools_whatever_its_environment",
            f"{IDENTITY}commands_that_change_the_team_refuse_inside_an_agents_environment",
            f"{IDENTITY}the_secret_stands_in_the_private_launch_file_and_nowhere_else",
            f"{SQUADS}a_process_of_a_member_leads_nobody",
        ),
    ),
    "FILES1": Promise(
        "Run data is private to the user and ignored by git; other files stay as they are; reading writes nothing.",
        (
            f"{FILES}the_run_data_is_private_and_ignored_by_git_and_files_of_others_are_left_alone",
            f"{IDENTITY}looking_writes_nothing_into_a_directory",
            f"{IDENTITY}the_home_directory_and_the_root_are_no_projects",
            "acceptance/test_spawn_limits.py::test_the_home_is_the_users_alone",
        ),
    ),
    "INSTALL1": Promise(
        "The wheel and the sdist carry prompts, schemas and the sample project; the wheel and its demo work without the checkout.",
        (
            "acceptance/test_install.py::test_wheel_and_sdist_carry_prompts_and_schemas_and_no_run_data",
            "acceptance/test_install.py::test_the_installed_wheel_works_without_the_checkout",
            "acceptance/test_install.py::test_the_demo_of_the_installed_wheel_runs_in_an_empty_directory_and_leaves_nothing_running",
        ),
    ),
    "SYSTEMS1": Promise(
        "All that is particular to a system is in base/platform, in two forms that tell the same.",
        (
            "unit/test_architecture.py::test_only_base_platform_knows_what_one_system_has_and_another_has_not",
            "unit/base/platform/test_portable_processes.py::test_both_forms_tell_the_same_of_a_process",
            "unit/base/platform/test_portable_processes.py::test_a_program_without_psutil_has_the_same_line_from_another_one",
            "unit/base/platform/test_durable_sync.py::test_macos_writes_through_the_cache_of_the_drive",
            "integration/test_platform.py::test_the_portable_form_runs_an_agent_and_reads_nothing_that_only_linux_has",
        ),
    ),
    "SYSTEMS2": Promise(
        "Where orchestrator cannot work, every command says so in one sentence, and nothing is left running.",
        (
            "integration/test_platform.py::test_where_it_cannot_work_every_command_says_so_in_one_sentence_and_leaves_nothing",
            "integration/test_platform.py::test_json_has_the_error_and_the_hook_has_nothing_to_say",
        ),
    ),
    "SYSTEMS3": Promise(
        "A system that does not name the process of a connection gives no client the rights of a master.",
        (
            "integration/test_platform.py::test_without_the_pid_of_a_peer_nobody_is_a_master_and_the_daemon_can_be_stopped",
        ),
    ),
    "NAMES1": Promise(
        "In commands a name means the living agent, of this window first; programs' ids stay exact and are never reused.",
        (
            "integration/test_agent_names.py::test_after_up_down_up_the_name_means_the_new_agent",
            "integration/test_agent_names.py::test_without_a_daemon_a_name_means_the_same",
            "integration/test_agent_names.py::test_of_two_windows_the_name_means_the_agent_of_this_one",
            "integration/test_agent_names.py::test_an_mcp_client_is_told_the_successor_and_near_names_and_ids_stay_exact",
            "unit/team/roster/test_agent_names.py::test_the_exact_id_of_a_living_agent_comes_before_the_name_of_another",
            "unit/cli/test_completion.py::test_only_living_agents_are_offered_by_name_where_it_is_theirs_alone",
        ),
    ),
    "READING1": Promise(
        "The status is one screen: one line an agent in any width, who needs a human first, failures visible.",
        (
            "unit/faces/test_status_lines.py::test_each_agent_has_one_line_that_fits_the_terminal",
            "unit/faces/test_status_lines.py::test_who_needs_a_human_comes_first_then_the_busy_the_idle_the_ended_and_the_oldest_first",
            "unit/faces/test_status_lines.py::test_an_idle_agent_whose_last_task_failed_says_so",
            "integration/test_cli_offline.py::test_the_status_of_eight_agents_fits_a_narrow_pane",
            "integration/test_cli_offline.py::test_a_watched_status_is_redrawn_in_place_until_ctrl_c",
            "integration/test_reading_agents.py::test_a_watched_status_outlives_its_daemon",
        ),
    ),
    "READING2": Promise(
        "Tasks, their results and the agents' output can be read whole, by id or its beginning, also without a daemon.",
        (
            "integration/test_cli_offline.py::test_a_task_is_shown_whole_by_its_id_or_the_beginning_of_it",
            "integration/test_cli_offline.py::test_tasks_are_listed_over_all_agents_and_by_their_end",
            "unit/cli/test_event_text.py::test_a_long_result_is_a_block_on_a_terminal_and_one_whole_line_in_a_pipe",
            "unit/cli/test_event_text.py::test_what_the_daemon_has_cut_is_read_whole_from_the_log",
            "integration/test_reading_agents.py::test_logs_can_be_followed_over_tasks",
        ),
    ),
    "READING3": Promise(
        "The last lines of a pane are kept when an agent ends or a task fails; no link leads them out, nothing waits long.",
        (
            "integration/test_reading_agents.py::test_what_the_pane_showed_is_kept_when_a_task_fails_and_when_the_agent_ends",
            "integration/test_reading_agents.py::test_a_crashed_launch_leaves_its_screen_and_the_attempt_names_it",
            "integration/test_reading_agents.py::test_a_link_that_an_agent_makes_leads_no_screen_out_and_delays_no_deletion",
            "integration/test_reading_agents.py::test_only_the_newest_screens_are_kept_and_gc_removes_them_with_the_agent",
        ),
    ),
    "NOTIFY1": Promise(
        "A person is told once of what needs somebody, of a failure and of the end of all work, unless it is in front.",
        (
            "unit/core/test_notices.py::test_an_item_is_announced_once",
            "unit/core/test_notices.py::test_the_end_of_all_work_is_announced_once_per_quiet",
            f"{NOTICES}an_agent_that_asks_is_announced_once_with_the_way_to_it",
            f"{NOTICES}what_comes_within_two_seconds_is_one_message",
            f"{NOTICES}a_pane_in_front_of_a_person_is_quiet_until_the_person_looks_elsewhere",
            f"{NOTICES}what_an_earlier_daemon_announced_is_not_announced_again",
            "integration/test_notifications.py::test_a_person_is_told_once_everywhere_also_by_the_next_daemon",
        ),
    ),
    "NOTIFY2": Promise(
        "A channel that fails or hangs harms nobody; what is shown is text and never a command; nothing is typed.",
        (
            f"{NOTICES}a_tmux_that_hangs_is_asked_once",
            f"{NOTICES}a_program_that_fails_or_hangs_is_ended_and_reported",
            f"{NOTICES}the_users_command_gets_json_and_no_key_of_ours",
            "integration/test_tmux_clients.py::test_a_message_is_shown_as_it_is",
            "integration/test_tmux_clients.py::test_the_bell_rings_at_the_terminal_and_types_nothing",
        ),
    ),
    "NOTIFY3": Promise(
        "The status line counts who needs somebody, over all projects of a session, and setup adds it to tmux.conf.",
        (
            "integration/test_tmux_clients.py::test_the_count_of_a_session_is_the_sum_of_its_windows",
            "integration/test_tmux_clients.py::test_the_runs_of_two_projects_in_one_window_are_both_counted",
            "unit/setup/test_tmux_conf.py::test_every_byte_comes_back",
            "unit/setup/test_tmux_conf.py::test_tmux_takes_the_lines_and_reads_them_again_without_a_second_segment",
        ),
    ),
    "NOTIFY4": Promise(
        "The border line of an agent that needs a human is coloured and begins with the sign that all faces use.",
        (
            "integration/test_panes_borders.py::test_a_colour_is_drawn_and_a_narrow_pane_keeps_the_beginning",
            "unit/engines/test_start_failures.py::test_the_border_line_says_why_an_agent_does_not_go_on",
        ),
    ),
    "WAYIN1": Promise(
        "Who follows the tutorial line by line, with a real Claude Code, gets what the page says.",
        ("e2e/test_tutorial.py::test_a_reader_of_the_tutorial_gets_what_it_promises",),
    ),
    "WAYIN2": Promise(
        "Every documented command is run, the examples of the help included; the quickstart can be followed twice.",
        (
            "integration/test_documented_commands.py::test_the_commands_of_a_page_do_what_it_says",
            "integration/test_documented_commands.py::test_the_quickstart_can_be_followed_twice",
            "integration/test_help_examples.py::test_the_examples_of_the_help_do_what_they_say",
            "integration/test_help_examples.py::test_every_example_stands_in_one_story",
        ),
    ),
    "WAYIN3": Promise(
        "Both quickstarts and the README's example say the same; pictures and screens are linked and of no machine.",
        (
            f"{DOCS}both_quickstarts_have_the_same_sections_commands_rows_links_and_words_of_code",
            f"{DOCS}the_worked_example_of_the_readme_is_the_tutorials",
            "unit/test_pictures.py::test_it_is_there_and_linked_and_small",
            "unit/test_pictures.py::test_it_names_no_host_and_no_path_of_a_machine",
            "unit/test_pictures.py::test_a_status_shows_each_kind_of_agent_on_one_line",
        ),
    ),
    "WORDS1": Promise(
        "A task is given in words: the payload is what the engine takes, attachments are copied once or not at all.",
        (
            "unit/cli/test_task_payload.py::test_words_are_a_task_for_ai_engines_and_the_command_of_the_shell",
            "unit/cli/test_task_payload.py::test_a_command_is_refused_for_an_engine_that_takes_words",
            "unit/cli/test_task_payload.py::test_words_of_an_editor_are_kept_if_the_task_is_refused",
            "integration/test_task_words.py::test_a_task_in_words_is_done_and_its_attachments_are_copied_once",
            "integration/test_task_words.py::test_a_refused_task_leaves_no_copies",
            "integration/test_task_words.py::test_a_link_that_an_agent_planted_is_never_followed",
        ),
    ),
    "TOP1": Promise(
        "`orchestrator top` shows who needs a human first, at every width and without wrapping, and answers exactly what was read.",
        (
            f"{TOP}every_width_shows_the_team_with_nothing_wrapped_and_its_tabs",
            "unit/faces/test_top_actions.py::test_a_decision_shows_the_whole_text_and_answers_exactly_that_item",
            "unit/faces/test_top_actions.py::test_an_item_that_is_over_meanwhile_is_not_answered_any_more",
            "e2e/test_top.py::test_claude_is_approved_denied_and_answered_in_top",
            "e2e/test_top.py::test_codex_is_held_while_top_is_open_until_it_is_approved_or_released",
        ),
    ),
    "TOP2": Promise(
        "`orchestrator top` changes nothing by itself, is refused to agents, and obeys no text of a stranger.",
        (
            "unit/faces/test_top.py::test_q_quits_and_changes_nothing",
            f"{TOP}a_top_that_is_killed_leaves_nothing_and_the_team_works_on",
            f"{TOP}without_a_terminal_or_below_an_agent_top_is_refused",
            "unit/faces/test_top.py::test_texts_of_strangers_are_no_markup_and_act_on_no_terminal",
            "unit/faces/test_top_layout.py::test_any_text_stays_on_its_line_and_acts_on_no_terminal",
            "unit/faces/test_top_lines.py::test_no_tab_shows_a_secret",
        ),
    ),
    "TOP3": Promise(
        "Every action of `orchestrator top` has a key, which a user's own configuration can change.",
        (
            "unit/faces/test_top_keys.py::test_every_action_has_a_key_and_something_that_it_does",
            f"{TOP}keys_of_the_users_configuration_count_and_mistakes_are_reported_at_the_start",
        ),
    ),
    "TOP4": Promise(
        "With 200 agents and 50 changes a second a frame of `orchestrator top` takes 50 ms at most, 15 % of a core, and no process.",
        reason="measured: python -m benchmarks faces",
    ),
    "TOP5": Promise(
        "No key of `orchestrator top` acts on what a person does not see or did not type: a hidden row, a late answer, a paste.",
        (
            "unit/faces/test_top_actions.py::test_no_key_acts_on_an_agent_that_a_filter_hides",
            "unit/faces/test_top_actions.py::test_what_comes_late_takes_no_key_that_was_meant_for_something_else",
            f"{TOP}a_pasted_task_arrives_as_it_was_and_none_of_it_is_a_key",
        ),
    ),
    "TOP6": Promise(
        "Enter in `orchestrator top` leads to the pane, Esc as the first key there back, and nothing stays bound or zoomed.",
        (
            f"{TOP}enter_shows_the_pane_zoomed_and_escape_as_the_first_key_comes_back",
            f"{TOP}escape_in_the_pane_opens_the_popup_again",
            f"{TOP}a_terminal_outside_of_tmux_is_given_to_the_pane_and_escape_comes_back",
            f"{TOP}a_top_that_is_told_to_end_gives_the_terminal_back_as_it_was",
        ),
    ),
    "REPORT1": Promise(
        "A report is one page of a team run that loads and runs nothing, and needs no daemon.",
        (
            f"{REPORT}the_page_has_each_task_with_request_attempts_outcome_and_result",
            f"{REPORT}a_task_has_what_was_committed_while_it_ran",
            f"{REPORT}nothing_is_loaded_and_nothing_runs",
            f"{REPORT}a_thousand_tasks_with_long_texts_make_a_page_of_bounded_size",
            "integration/test_cli_offline.py::test_a_report_is_written_from_damaged_files_and_replaces_only_a_report",
        ),
    ),
    "REPORT2": Promise(
        "Nothing in a report is markup, a secret or private because an agent, a file or a model wrote it.",
        (
            f"{REPORT}text_of_strangers_in_every_field_stays_text",
            f"{REPORT}secrets_are_masked_wherever_they_stand",
            f"{REPORT}a_secret_in_the_place_of_an_id_is_masked_on_the_page",
            f"{REPORT}a_secret_that_the_cut_goes_through_is_masked",
            f"{REPORT}what_is_private_is_not_shown",
            "unit/cli/test_reports.py::test_a_link_in_the_place_of_a_page_cannot_lead_out_of_the_project",
        ),
    ),
    "REPORT3": Promise(
        "A timeline shows what the records say, and declares records that are missing.",
        (
            "property/test_state_machine.py::test_any_history_keeps_fifo_one_lease_and_exactly_one_end",
            f"{TIMELINE}a_wait_for_a_human_lasts_until_it_is_lifted_and_says_who_answered",
            f"{TIMELINE}a_damaged_line_is_a_gap_and_its_attempt_ends_where_nobody_knows",
            f"{TIMELINE}an_end_that_the_outbox_has_lost_is_taken_from_the_broadcast",
            f"{TIMELINE}a_log_that_ends_before_what_the_broadcast_knows_declares_it",
            f"{TIMELINE}an_agent_whose_data_gc_has_removed_keeps_its_row_and_its_ends",
        ),
    ),
}
"""Promise id -> what holds it."""
