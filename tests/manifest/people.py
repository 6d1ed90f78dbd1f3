"""What is promised to people who look at a team and answer it, and the tests that prove each promise."""

from tests.manifest.team import Promise

WHO = "security/test_who_may_answer.py::test_"
RULES = "unit/team/people/test_approval_rules.py::test_"
USAGE = "unit/team/people/test_usage_accounts.py::test_"
HOOKS = "unit/team/people/test_hook_requests.py::test_"
HOOK_PROCESSES = "integration/test_permission_hooks.py::test_"
SIZES = "unit/team/people/test_worktree_sizes.py::test_"
APPROVALS = "unit/team/people/test_approvals.py::test_"
CLI = "unit/cli/test_app.py::test_"

GEMINI = "unit/engines/test_gemini_approvals.py::test_"
SAME = "unit/faces/test_same_words.py::test_"
WEB = "security/test_web.py::test_"
WEB_GUARD = "unit/faces/test_web_guard.py::test_"
WEB_PAGES = "unit/faces/test_web_pages.py::test_"
WEB_BROWSER = "e2e/test_web.py::test_"
PARALLEL = "unit/team/people/test_parallel_requests.py::test_"

PROMISES: dict[str, Promise] = {
    "ANSWERS1": Promise(
        "Only a human answers what agents ask; a master only where its user's own file says so; never what is below an agent.",
        (
            f"{WHO}a_human_answers_in_a_terminal_and_the_record_says_who",
            f"{WHO}a_human_answers_in_the_shell_that_has_started_the_cli",
            f"{WHO}a_masters_shell_tool_answers_nothing",
            f"{WHO}a_relay_that_ended_with_its_daemon_is_remembered",
            f"{WHO}what_a_master_leaves_behind_answers_nothing",
            f"{WHO}a_master_answers_where_the_users_own_configuration_says_so_and_makes_no_rule",
            f"{WHO}a_squad_member_answers_nothing",
            "security/test_agents_stay_agents.py::test_an_agent_that_connects_by_itself_changes_nothing",
            "unit/trust/test_human_origin.py::test_a_human_is_proven_and_what_may_come_from_a_cli_is_none",
        ),
    ),
    "ANSWERS2": Promise(
        "An item is answered once: the record first, then the CLI; an item that is over, changed or unknown gets nothing.",
        (
            f"{APPROVALS}an_answer_is_a_record_and_reaches_the_cli_once",
            f"{APPROVALS}of_two_answers_at_once_the_first_counts",
            f"{APPROVALS}nothing_is_decided_when_its_record_cannot_be_written",
            f"{APPROVALS}a_hook_that_comes_back_after_the_daemon_died_is_answered_from_the_record",
            f"{APPROVALS}an_answer_sent_again_after_the_daemon_died_is_told_what_is_recorded",
            f"{APPROVALS}an_answer_whose_caller_goes_still_reaches_the_cli",
            f"{APPROVALS}a_dialog_that_outlives_its_answer_is_an_item_again_and_gets_a_key_for_a_new_answer_only",
            f"{HOOK_PROCESSES}an_answer_whose_daemon_is_killed_is_carried_out_once_and_told_once",
            f"{APPROVALS}another_dialog_than_the_one_that_was_shown_gets_no_key",
            f"{WHO}an_unknown_item_and_a_wrong_answer_are_refused",
        ),
    ),
    "ANSWERS3": Promise(
        "A rule covers exactly what its human saw, in its project and directory, and is taken back by one command.",
        (
            "unit/engines/test_rule_patterns.py::test_no_two_requests_that_differ_have_one_pattern",
            "unit/engines/test_rule_patterns.py::test_what_a_human_may_not_have_seen_has_no_pattern",
            f"{RULES}a_rule_covers_exactly_what_was_seen_until_it_is_removed",
            f"{RULES}no_copy_and_no_other_project_has_the_rules",
            f"{RULES}a_file_that_leads_elsewhere_now_is_asked_again",
            f"{APPROVALS}a_rule_allows_once_and_its_answer_is_a_record",
            f"{APPROVALS}always_is_offered_only_where_a_rule_can_cover_what_is_asked",
        ),
    ),
    "ANSWERS4": Promise(
        "The inbox is one line an item in any width, an item is shown whole, and no text of an agent looks like ours.",
        (
            "unit/faces/test_inbox_lines.py::test_each_item_has_one_line_that_fits",
            "unit/faces/test_inbox_lines.py::test_all_of_one_item_is_shown_and_each_command_can_be_copied",
            "unit/faces/test_inbox_lines.py::test_no_part_of_a_long_text_looks_like_a_line_of_ours",
            "unit/cli/test_inbox.py::test_without_a_daemon_the_inbox_says_what_it_lacks",
        ),
    ),
    "ANSWERS5": Promise(
        "A hook, plugin or daemon that dies leaves a call of Gemini CLI or opencode to the CLI as its user has it.",
        (
            f"{GEMINI}the_policy_allows_marked_calls_alone_and_yields_to_every_rule_of_the_user",
            f"{GEMINI}an_approved_call_has_the_mark_and_all_else_as_the_model_gave_it",
            f"{GEMINI}a_call_that_has_the_mark_by_itself_is_refused_and_asked_of_nobody",
            f"{GEMINI}what_the_users_own_words_may_decide_is_left_to_the_cli",
            f"{PARALLEL}without_a_face_the_cli_decides_and_nothing_is_said_to_block_it",
            f"{PARALLEL}what_its_pane_was_asked_once_stays_there",
            f"{PARALLEL}a_plugin_that_comes_back_tells_the_same_requests_again",
            "e2e/test_approvals_gemini.py::test_whatever_dies_the_cli_asks_as_before",
            "e2e/test_approvals_gemini.py::test_a_request_outlives_the_daemon",
            "e2e/test_approvals_opencode.py::test_a_humans_word_decides_while_the_dialog_stays",
        ),
    ),
    "ANSWERS6": Promise(
        "Claude Code and Codex are answered by their hook with the whole text; without an answer they ask as before.",
        (
            f"{HOOKS}a_request_is_an_item_at_once_with_the_whole_text_masked_and_visible",
            f"{HOOKS}what_a_human_answered_in_the_pane_is_withdrawn_when_the_cli_goes_on",
            f"{HOOKS}codex_is_held_while_a_face_is_open_and_then_shows_its_dialog",
            f"{HOOKS}codex_is_held_no_longer_than_the_user_allows",
            f"{HOOKS}subagents_of_claude_code_ask_each_for_itself_also_after_the_turn",
            f"{HOOKS}the_dialog_that_is_gone_from_the_screen_was_answered_there_and_nothing_else_was",
            f"{PARALLEL}requests_of_one_message_of_claude_code_wait_until_their_own_dialog_has_gone",
            f"{HOOK_PROCESSES}a_request_survives_the_kill_of_the_daemon_and_is_then_answered",
            f"{HOOK_PROCESSES}a_hook_that_is_killed_takes_its_item_with_it_and_nothing_can_be_approved",
            f"{HOOK_PROCESSES}a_daemon_that_was_stopped_leaves_the_question_to_the_cli",
            "e2e/test_approvals_claude.py::test_a_humans_word_decides_without_a_key_in_the_pane",
            "e2e/test_approvals_claude.py::test_whatever_dies_or_is_answered_in_the_pane_the_cli_asks_as_before",
            "e2e/test_approvals_codex.py::test_a_humans_word_decides_while_a_face_is_open",
            "e2e/test_approvals_codex.py::test_whatever_dies_the_cli_asks_as_before",
        ),
    ),
    "ANSWERS7": Promise(
        "What failed or conflicts stays in the inbox until it is solved or a human took note, and whoever looks sees it.",
        (
            f"{APPROVALS}an_error_is_an_item_until_a_human_took_note",
            f"{APPROVALS}an_error_stays_an_item_while_the_agent_does_its_next_tasks",
            f"{APPROVALS}a_limit_is_shown_with_the_time_of_its_reset",
            f"{SIZES}commits_that_conflict_are_one_item_until_they_do_not_or_somebody_takes_note",
            f"{SIZES}conflicts_after_solved_ones_are_another_item",
            f"{SIZES}who_looks_once_sees_it_although_no_face_is_open",
        ),
    ),
    "FIGURES1": Promise(
        "Each model request counts once and for its task; what is not known is said; no file of a CLI does any harm.",
        (
            "e2e/test_usage.py::test_every_request_of_an_agent_is_counted_once_and_belongs_to_its_task",
            "e2e/test_usage.py::test_the_requests_of_subagents_count_as_their_agents",
            f"{USAGE}a_request_belongs_to_the_task_that_the_agent_had_at_that_time",
            f"{USAGE}a_forked_session_and_subagents_are_counted_once",
            f"{USAGE}the_next_daemon_counts_nothing_twice_and_gives_what_it_missed_to_the_last_task",
            f"{USAGE}the_threads_that_codex_starts_are_counted_once_with_their_own_threads",
            "unit/team/people/test_transcript_reading.py::test_a_file_that_was_written_anew_in_place_and_is_longer_is_read_from_its_beginning",
            "unit/engines/test_usage_reading.py::test_a_time_that_cannot_be_is_left_out_and_the_request_counts",
            f"{USAGE}what_is_not_known_is_said",
            "unit/team/people/test_transcript_reading.py::test_hostile_lines_hold_no_request",
            "unit/team/people/test_transcript_reading.py::test_a_link_a_pipe_a_directory_and_a_strangers_file_hold_none",
            "unit/engines/test_usage_reading.py::test_an_impossible_number_makes_no_request",
        ),
    ),
    "FIGURES2": Promise(
        "Worktrees, screens and transcripts are asked while a face is open, once for all faces, and never per frame.",
        (
            "unit/team/people/test_screen_lines.py::test_while_nobody_looks_nothing_is_asked",
            "unit/team/people/test_screen_lines.py::test_many_faces_that_show_one_agent_ask_for_its_screen_once_a_second",
            "unit/team/people/test_worktree_sizes.py::test_nothing_is_asked_of_git_until_somebody_looks_and_then_only_after_something_happened",
            "integration/test_screens.py::test_the_texts_of_as_many_panes_as_fit_take_one_invocation_and_only_tagged_panes_count",
            "integration/test_agent_figures.py::test_a_face_sees_worktrees_and_screens_and_what_would_not_merge",
        ),
    ),
    "FIGURES3": Promise(
        "A run over its budget and commits that would not merge are one item each, until somebody takes note.",
        (
            f"{USAGE}a_run_over_its_budget_is_one_item_until_somebody_takes_note",
            f"{USAGE}a_dismissed_budget_stays_dismissed_when_the_agent_with_the_record_is_deleted",
            f"{USAGE}the_next_daemon_counts_deleted_agents_towards_the_budget",
            "unit/spawn/test_runs.py::test_people_see_that_a_run_has_ended_because_its_budget_was_used_up",
            "unit/team/people/test_worktree_sizes.py::test_commits_that_conflict_are_one_item_until_they_do_not_or_somebody_takes_note",
            "unit/team/people/test_snapshot_feed.py::test_a_spawn_run_that_its_budget_has_stopped_is_one_item_until_somebody_takes_note",
        ),
    ),
    "FIGURES4": Promise(
        "The totals of a team run are the same in all faces, and do not fall when an agent is deleted.",
        (
            "unit/faces/test_same_words.py::test_all_faces_show_the_same_totals",
            "unit/faces/test_same_words.py::test_what_a_deleted_agent_did_and_cost_stays_in_the_totals_of_all_faces",
        ),
    ),
    "SNAPSHOT1": Promise(
        "`status`, top, the web page and `team://snapshot` show the same agents and items, in the same order and words.",
        (
            f"{SAME}all_faces_show_the_same_agents_in_the_same_order_with_the_same_words",
            f"{SAME}every_cell_of_every_kind_of_row_is_the_same_in_all_faces",
            f"{SAME}all_faces_show_the_same_totals_of_every_kind_of_row",
            f"{SAME}every_kind_of_item_has_the_same_words_in_all_inboxes",
            "integration/test_snapshot.py::test_the_resource_and_the_command_line_show_the_same_rows_in_the_same_order",
        ),
    ),
    "START1": Promise(
        "A command loads no other command, and what is called all day loads no library that is slower than itself.",
        (
            f"{CLI}what_is_called_all_day_loads_few_modules_and_no_other_command",
            f"{CLI}a_command_loads_no_more_than_it_needs",
            f"{CLI}the_help_lists_each_command_with_its_own_first_sentence",
            "integration/test_daemon.py::test_what_shows_the_team_loads_no_slow_library_whether_a_daemon_runs_or_not",
            "unit/trust/test_launched.py::test_all_new_lines_are_taken_together_because_each_addition_copies_what_is_known",
        ),
    ),
    "WEB1": Promise(
        "The web pages show what `status` shows, live, in any width and by keyboard, and answer what waits for a human.",
        (
            "integration/test_web.py::test_the_page_status_and_the_resource_show_the_same_values_in_the_same_order_and_words",
            "integration/test_web.py::test_the_pages_show_the_team_and_follow_it",
            "unit/faces/test_changed_files.py::test_top_and_the_page_give_the_same_guess_and_say_that_it_is_one",
            f"{WEB_PAGES}an_item_shows_its_whole_text_and_the_answers_that_work_now",
            f"{WEB_BROWSER}every_page_fits_is_accessible_and_complains_of_nothing",
            f"{WEB_BROWSER}a_page_whose_connection_fell_silent_says_so_and_finds_its_way_back",
            f"{WEB_BROWSER}the_keyboard_alone_answers_and_a_link_that_reads_shows_no_button",
            f"{WEB_BROWSER}a_real_cli_is_answered_from_the_page",
            f"{WEB_BROWSER}the_other_clis_are_answered_from_the_page_too",
        ),
    ),
    "WEB2": Promise(
        "Only a human's browser gets data, with a token that is shown once, kept as a hash, and sent as a header.",
        (
            f"{WEB}an_agent_that_knows_the_token_gets_nothing_and_approves_nothing",
            f"{WEB}what_runs_below_a_master_gets_nothing",
            f"{WEB}another_user_of_the_machine_gets_nothing",
            f"{WEB}the_command_refuses_agents_and_shows_its_link_on_a_terminal_only",
            f"{WEB}the_token_is_in_no_file_no_environment_and_no_command_line",
            f"{WEB_GUARD}a_token_counts_in_its_header_only",
            f"{WEB_GUARD}a_token_that_reads_does_not_answer",
            f"{WEB_GUARD}data_and_answers_need_a_token_that_was_issued",
            f"{WEB_BROWSER}a_page_is_live_and_keeps_its_token_in_the_tab_alone",
        ),
    ),
    "WEB3": Promise(
        "No other site, no other name of the machine and no text of an agent, file or model acts through the pages.",
        (
            f"{WEB_GUARD}another_host_is_refused_also_for_the_shell",
            f"{WEB_GUARD}a_request_of_another_site_is_refused",
            f"{WEB_GUARD}an_answer_that_a_form_could_send_is_refused",
            f"{WEB_GUARD}every_answer_forbids_frames_other_origins_sniffing_and_keeping",
            f"{WEB_PAGES}text_becomes_markup_only_escaped_also_in_attributes",
            f"{WEB}a_script_in_any_text_of_an_agent_stays_text",
            f"{WEB}no_path_leads_out_of_the_artifacts",
        ),
    ),
    "WEB4": Promise(
        "A thousand pages, slow clients, wrong tokens, a dead daemon and a bug in a page keep nobody else from the pages.",
        (
            f"{WEB}a_thousand_pages_are_served_the_next_is_refused_and_ctrl_c_ends_all",
            f"{WEB}connections_that_say_nothing_keep_nobody_from_the_pages",
            f"{WEB}whoever_sends_half_a_request_is_dropped_and_keeps_nobody_waiting",
            f"{WEB}it_works_without_a_daemon_and_finds_one_that_comes_back",
            f"{WEB_GUARD}wrong_tokens_are_slowed_down_and_never_lock_the_owner_out",
            f"{WEB_GUARD}a_bug_leaves_a_line_and_an_error_without_its_words",
            f"{WEB_PAGES}a_page_with_a_bug_says_so_and_leaves_one_line_without_its_words",
            "integration/test_web.py::test_ctrl_c_ends_it_also_with_open_streams",
        ),
    ),
    "WEB5": Promise(
        "Another machine is let in only over TLS or a proxy that is named, and a phone gets its token for a code, once.",
        (
            f"{WEB}listening_for_other_machines_needs_tls_and_takes_a_code_once",
            f"{WEB}tls_files_that_do_not_serve_are_refused_before_a_link_is_shown",
            "integration/test_web.py::test_a_proxy_with_tls_passes_on_pages_streams_and_answers",
            f"{WEB_GUARD}a_code_is_exchanged_for_a_token_once",
            "unit/faces/test_web_access.py::test_a_code_is_exchanged_once_soon_and_after_few_tries",
        ),
    ),
}
