"""Which tests stand behind each sentence of docs/trust.md; `test_trust_claims` holds both together."""

CLAIMS: dict[str, tuple[str, ...]] = {
    "A cloned repository starts nothing when an AI CLI starts in it, and what it brings can be read.": (
        "tests/security/test_foreign_data.py::test_a_cloned_repository_runs_nothing_and_can_be_read",
    ),
    "An ordinary clone that holds only what users write works at once.": (
        "tests/security/test_foreign_data.py::test_an_ordinary_clone_with_what_users_write_works_at_once",
    ),
    "What a pull, a checkout or an archive brings into a trusted project starts nothing, and the rest of the team goes on.": (
        "tests/security/test_foreign_data.py::test_what_comes_into_a_trusted_project_runs_nothing_and_the_team_goes_on",
    ),
    "An agent whose log was written over is foreign, and no other agent.": (
        "tests/security/test_foreign_data.py::test_an_outbox_written_over_makes_that_agent_foreign_and_no_other",
    ),
    "A record of one log counts in no other log, for no other agent and at no other place.": (
        "tests/security/test_foreign_data.py::test_no_record_serves_in_another_log_of_another_agent_or_at_another_place",
    ),
    "A record that somebody appends to a log makes that agent foreign.": (
        "tests/security/test_foreign_data.py::test_a_record_appended_by_a_stranger_makes_the_agent_foreign",
    ),
    "A copied project and a restored backup ask again, and a moved project keeps its trust.": (
        "tests/security/test_foreign_data.py::test_a_copied_project_asks_and_a_moved_one_goes_on",
        "tests/security/test_foreign_data.py::test_a_restored_backup_asks",
    ),
    "A bind mount of a project is the same project.": (
        "tests/security/test_foreign_data.py::test_a_bind_mount_is_the_same_project",
    ),
    "An identity that was copied from another project, or invented, is not accepted.": (
        "tests/security/test_foreign_data.py::test_an_identity_of_a_stranger_or_of_another_project_is_none",
    ),
    "Data of before this version is adopted without loss.": (
        "tests/security/test_foreign_data.py::test_the_data_of_before_is_adopted_without_loss",
        "tests/security/test_foreign_data.py::test_a_running_team_of_before_goes_on_after_one_question",
    ),
    "An adoption that was cut off is completed by the next one.": (
        "tests/security/test_foreign_data.py::test_an_adoption_that_was_cut_off_is_made_whole_by_the_next",
    ),
    "A copy that is adopted takes no pane and no process of the original.": (
        "tests/security/test_foreign_data.py::test_a_copy_that_is_adopted_takes_no_pane_and_no_process_of_the_original",
    ),
    "A home of spawn runs that came from elsewhere does nothing when a client starts, and its runs can be read.": (
        "tests/security/test_spawn_homes.py::test_a_strangers_home_does_nothing_when_a_client_starts_and_can_be_read",
    ),
    "A spawn run that a pull has changed or added is not executed, released or canceled.": (
        "tests/security/test_spawn_homes.py::test_a_run_that_a_pull_has_changed_is_not_executed_and_not_touched",
        "tests/security/test_spawn_homes.py::test_a_run_that_a_pull_has_added_is_not_executed",
    ),
    "A planted answer of a spawn run reaches no other node.": (
        "tests/security/test_spawn_homes.py::test_an_answer_that_a_pull_has_put_in_the_place_of_ours_reaches_no_other_node",
    ),
    "A spawn database with triggers, views or virtual tables is refused.": (
        "tests/security/test_spawn_homes.py::test_a_schema_that_acts_is_refused_and_nothing_of_it_is_carried_out",
    ),
    "A `.git` file moves the team into another project only where that project's repository names the directory.": (
        "tests/security/test_git_file.py::test_an_archive_with_a_git_directory_of_its_own_making_stays_where_it_is",
        "tests/security/test_git_file.py::test_an_archive_that_names_a_worktree_of_another_directory_stays_where_it_is",
    ),
    "A lock file that came with a clone keeps nobody waiting and moves nobody.": (
        "tests/security/test_other_user.py::test_a_lock_that_came_with_a_clone_keeps_nobody_waiting_and_moves_nobody",
    ),
    "A setting of a project that can act changes nothing until you have allowed exactly that content.": (
        "tests/security/test_settings.py::test_an_acting_setting_of_the_project_counts_only_as_it_was_allowed",
    ),
    "The text of a role counts at once, and its `approval` once you have allowed it.": (
        "tests/security/test_settings.py::test_an_acting_key_of_a_role_counts_only_as_it_was_allowed_and_its_body_counts_at_once",
    ),
    "A template that lies in the project counts once you have allowed it, also where a variable names it.": (
        "tests/security/test_settings.py::test_a_template_of_the_project_counts_only_as_it_was_allowed",
        "tests/security/test_settings.py::test_a_template_that_the_user_names_counts_by_itself_only_outside_of_the_project",
    ),
    "A new or changed team file is shown with its plan before `orchestrator up` does anything.": (
        "tests/security/test_trust_question.py::test_up_shows_its_plan_and_asks_before_a_new_or_changed_team_file_acts",
    ),
    "A pull into a project that you have allowed allows nothing new.": (
        "tests/security/test_settings.py::test_a_pull_into_an_allowed_project_allows_nothing_new",
    ),
    "A clone with harmless settings works without a word.": (
        "tests/security/test_settings.py::test_an_ordinary_clone_works_at_once_and_silently",
    ),
    "No project can have a program started to notify you, nor keep you from being notified.": (
        "tests/security/test_settings.py::test_a_word_about_trust_never_counts_from_a_project_also_if_its_file_was_allowed",
        "tests/unit/team/people/test_notifications.py::test_the_users_command_gets_json_and_no_key_of_ours",
    ),
    "Every setting, role key and team-file key has a class.": (
        "tests/security/test_settings.py::test_every_setting_has_a_class_and_every_acting_one_says_which_values_are_harmless",
        "tests/security/test_settings.py::test_every_key_of_a_team_file_has_a_class",
        "tests/security/test_settings.py::test_every_key_that_is_read_of_a_role_has_a_class",
    ),
    "The question is asked on the controlling terminal, and a pipe does not answer it.": (
        "tests/security/test_trust_question.py::test_stdin_and_stdout_neither_answer_nor_hide_the_question",
    ),
    "Nothing in a file can command the terminal or pass for the question.": (
        "tests/security/test_trust_question.py::test_nothing_in_a_file_commands_the_terminal_or_passes_for_the_question",
    ),
    "A file that changes while you are asked is shown again.": (
        "tests/security/test_trust_question.py::test_what_changes_under_the_question_is_shown_again_and_was_not_allowed",
    ),
    "The shell tool of a master gives no trust, and neither does what it leaves behind.": (
        "tests/security/test_trust_question.py::test_what_a_masters_shell_tool_leaves_behind_gives_no_trust",
        "tests/security/test_trust_question.py::test_a_masters_shell_tool_gives_no_trust_not_even_past_the_command_line_or_once_its_relay_has_ended",
    ),
    "Agents and squad members give no trust.": (
        "tests/security/test_trust_question.py::test_an_agents_shell_gives_no_trust",
        "tests/security/test_trust_question.py::test_a_squads_member_gives_no_trust",
    ),
    "`orchestrator trust --expect` works only where your own configuration permits it.": (
        "tests/security/test_trust_question.py::test_a_digest_serves_a_script_only_where_the_users_own_configuration_permits_it",
    ),
    "What you revoke ends at once.": (
        "tests/security/test_trust_question.py::test_trust_is_listed_and_taken_back_without_a_restart",
    ),
    "A file of a project makes this host part of a fleet, and lets other hosts start something here, only once you have allowed exactly that content.": (
        "tests/security/test_settings.py::test_an_acting_setting_of_the_project_counts_only_as_it_was_allowed",
        "tests/unit/config/test_sources.py::test_a_fleet_is_named_whole_or_not_at_all",
    ),
    "`orchestrator trust` says with the keys of a fleet who may then start programs.": (
        "tests/security/test_trust_question.py::test_the_question_about_a_fleet_says_who_may_then_start_programs",
    ),
    "Without `[fleet.accept]` a host takes nothing from other hosts that starts something.": (
        "tests/unit/fleet/test_acceptance.py::test_by_default_nothing_is_taken_and_every_refusal_is_one_sentence",
    ),
    "A host takes only from hosts, and only engines and roles, that its `[fleet.accept]` names.": (
        "tests/unit/fleet/test_acceptance.py::test_only_hosts_that_are_named_may_start_something_and_this_one_always_may",
        "tests/unit/fleet/test_acceptance.py::test_only_engines_that_are_named",
        "tests/unit/fleet/test_acceptance.py::test_only_roles_that_are_named",
    ),
    "No other host gets more `approval` than `[fleet.accept]` says, also where its call leaves that to the settings of this host.": (
        "tests/unit/fleet/test_acceptance.py::test_no_more_approval_than_is_accepted",
        "tests/unit/fleet/test_hosts_together.py::test_what_a_call_leaves_open_is_accepted_only_as_the_owner_decides_it",
    ),
    "The engine `command` runs for a fleet only command lines that this host defines in `[fleet.accept]`, by their names.": (
        "tests/unit/fleet/test_acceptance.py::test_the_engine_command_runs_only_what_this_host_defines_also_for_itself",
    ),
    "A cancel and a stop are taken from every host of the fleet: they end work and start nothing.": (
        "tests/unit/fleet/test_acceptance.py::test_what_ends_work_is_taken_from_everybody",
    ),
    "`orchestrator fleet init`, `fleet leave` and `host add` allow what they write, so only a human at a terminal may call them.": (
        "tests/integration/fleet/test_fleet_commands.py::test_nobody_but_a_human_joins_a_fleet",
    ),
    "They allow nothing else of the file: one with acting settings that you have not allowed is left as it is.": (
        "tests/unit/fleet/test_host_files.py::test_what_a_stranger_wrote_is_not_allowed_with_the_rest",
    ),
    "What a host posts, asks, shows and says of itself is checked where it is written and again where it is read: it stops no other host, and puts no control characters on a screen.": (
        "tests/integration/fleet/test_schema.py::test_a_host_cannot_write_what_would_stop_the_others",
        "tests/integration/fleet/test_schema.py::test_a_host_cannot_make_an_agent_that_its_owner_cannot_take",
        "tests/integration/fleet/test_schema.py::test_a_host_that_asks_without_end_is_refused",
        "tests/unit/fleet/test_hostile_hosts.py::test_a_post_that_cannot_be_read_ends_its_task_and_holds_up_no_other",
        "tests/unit/fleet/test_hostile_hosts.py::test_a_mirror_of_lines_that_are_no_records_is_not_read_without_end",
        "tests/unit/fleet/test_received_view.py::test_no_control_character_and_no_secret_reaches_a_terminal",
    ),
    "A password in the DSN is refused, and no error repeats it.": (
        "tests/unit/config/test_sources.py::test_a_wrong_word_about_the_fleet_is_refused_and_no_password_is_repeated",
    ),
    "A password file that others can open, and a server on another machine without `sslmode=verify-full`, are refused.": (
        "tests/unit/fleet/test_fleet_settings.py::test_a_password_file_is_this_users_alone",
        "tests/unit/fleet/test_fleet_settings.py::test_only_a_proven_server_or_this_machine_is_safe",
    ),
    "Who may change a team is decided from the process that the kernel names, its ancestors and its session.": (
        "tests/security/test_agents_stay_agents.py::test_a_name_of_processes_that_are_no_agents_gives_no_rights",
    ),
    "A system that does not name the process of a connection gives no client the rights of a master.": (
        "tests/integration/test_platform.py::test_without_the_pid_of_a_peer_nobody_is_a_master_and_the_daemon_can_be_stopped",
    ),
    "What a client says of itself can only take rights away.": (
        "tests/security/test_agents_stay_agents.py::test_an_agents_process_among_those_that_a_hello_names_still_takes_the_rights_away",
    ),
    "An agent's shell changes nothing by a direct connection, with a cleared environment, or as an orphan without a terminal.": (
        "tests/security/test_agents_stay_agents.py::test_an_agent_that_connects_by_itself_changes_nothing",
    ),
    "The plain command line refuses inside an agent, also where it would ask no daemon.": (
        "tests/security/test_agents_stay_agents.py::test_the_command_line_changes_nothing_from_inside_an_agent",
    ),
    "A process of unknown origin may look at a team and change nothing.": (
        "tests/security/test_agents_stay_agents.py::test_who_comes_from_nobody_knows_where_may_look_and_who_comes_from_an_agent_may_not",
    ),
    "What outlives an agent's CLI stays the agent's.": (
        "tests/security/test_agents_stay_agents.py::test_what_outlives_its_agents_cli_is_no_master",
    ),
    "An agent with the secret of another cannot act as that agent.": (
        "tests/security/test_agents_stay_agents.py::test_an_agent_with_anothers_secret_does_not_speak_as_that_one",
    ),
    "An agent with its own secret changes nothing of another agent, run, squad or spawn run.": (
        "tests/security/test_agents_stay_agents.py::test_an_agent_with_its_own_secret_changes_nothing_of_another",
    ),
    "The socket of an agent serves that agent alone.": (
        "tests/security/test_agents_stay_agents.py::test_an_agents_own_socket_is_for_that_agent_alone",
    ),
    "Agents of your other projects cannot lead a team.": (
        "tests/security/test_agents_stay_agents.py::test_an_agent_of_another_project_of_the_same_user_leads_nobody",
    ),
    "A squad member cannot lead a team.": (
        "tests/security/test_agents_stay_agents.py::test_a_squad_member_leads_nobody",
    ),
    "A human in a pane leads by the command line, and a CLI in a terminal leads as a master.": (
        "tests/security/test_agents_stay_agents.py::test_a_human_in_a_pane_leads_by_the_command_line",
        "tests/security/test_agents_stay_agents.py::test_the_relay_of_a_cli_in_a_terminal_is_a_masters",
    ),
    "What an agent asks is answered by a human; agents, squad members and processes of unknown origin answer nothing.": (
        "tests/security/test_who_may_answer.py::test_a_human_answers_in_a_terminal_and_the_record_says_who",
        "tests/security/test_who_may_answer.py::test_a_human_answers_in_the_shell_that_has_started_the_cli",
        "tests/security/test_who_may_answer.py::test_a_squad_member_answers_nothing",
        "tests/security/test_agents_stay_agents.py::test_an_agent_that_connects_by_itself_changes_nothing",
        "tests/security/test_agents_stay_agents.py::test_the_command_line_changes_nothing_from_inside_an_agent",
    ),
    "The shell tool of a master answers nothing, and neither does what it leaves behind, unless your own file sets `approvals.master`.": (
        "tests/security/test_who_may_answer.py::test_a_masters_shell_tool_answers_nothing",
        "tests/security/test_who_may_answer.py::test_what_a_master_leaves_behind_answers_nothing",
        "tests/security/test_who_may_answer.py::test_a_master_answers_where_the_users_own_configuration_says_so_and_makes_no_rule",
    ),
    "A program that tmux runs without a window (`run-shell`, hooks) answers nothing, if agents run in that tmux server.": (
        "tests/security/test_who_may_answer.py::test_what_tmux_runs_for_an_agent_answers_nothing",
    ),
    "Who has held a relay is known to every daemon until the next boot.": (
        "tests/security/test_who_may_answer.py::test_a_relay_that_ended_with_its_daemon_is_remembered",
    ),
    "Only the user's own file lets a master answer: no file of a project, no variable and no option does.": (
        "tests/security/test_settings.py::test_only_a_users_file_lets_a_master_answer",
        "tests/security/test_settings.py::test_a_word_about_trust_never_counts_from_a_project_also_if_its_file_was_allowed",
    ),
    "A master makes no rule, removes none and presses no key in a pane.": (
        "tests/unit/team/people/test_approvals.py::test_only_a_human_makes_a_rule",
        "tests/unit/team/people/test_approvals.py::test_a_master_presses_no_key_in_the_pane_of_another_agent",
        "tests/security/test_who_may_answer.py::test_a_master_answers_where_the_users_own_configuration_says_so_and_makes_no_rule",
    ),
    "A rule of `--always` covers exactly what was shown, in its project and directory, and is not stored in the project.": (
        "tests/unit/engines/test_rule_patterns.py::test_no_two_requests_that_differ_have_one_pattern",
        "tests/unit/engines/test_rule_patterns.py::test_what_a_human_may_not_have_seen_has_no_pattern",
        "tests/unit/team/people/test_approval_rules.py::test_a_rule_covers_exactly_what_was_seen_until_it_is_removed",
        "tests/unit/team/people/test_approval_rules.py::test_rules_are_private_and_none_is_in_the_project",
        "tests/unit/team/people/test_approval_rules.py::test_no_copy_and_no_other_project_has_the_rules",
    ),
    "A key is pressed in an agent's pane only as a human's answer to the very dialog on its screen.": (
        "tests/unit/team/people/test_approvals.py::test_a_dialog_on_the_screen_is_answered_by_the_key_that_it_names",
        "tests/unit/team/people/test_approvals.py::test_another_dialog_than_the_one_that_was_shown_gets_no_key",
        "tests/unit/team/people/test_approvals.py::test_a_dialog_that_goes_in_the_moment_of_the_key_gets_none",
        "tests/unit/team/people/test_approvals.py::test_a_master_presses_no_key_in_the_pane_of_another_agent",
    ),
    "A directory in `/tmp` that another user made first blocks nothing: all programs use your state directory instead.": (
        "tests/security/test_other_user.py::test_a_directory_that_another_user_made_first_denies_nothing",
    ),
    "A link in its place is not followed.": (
        "tests/security/test_other_user.py::test_a_link_that_another_user_made_first_is_not_followed",
    ),
    "A socket of another user is not spoken to.": (
        "tests/security/test_other_user.py::test_a_socket_of_another_user_below_a_directory_of_ours_is_not_spoken_to",
    ),
    "Two daemons never write one project, also where two programs see different directories.": (
        "tests/security/test_other_user.py::test_of_two_daemons_that_began_before_there_was_a_file_the_later_to_write_gives_way",
        "tests/security/test_other_user.py::test_a_program_that_sees_neither_the_word_nor_its_directory_gets_no_second_daemon",
    ),
    "What a task passes in `input`, or runs as `private`, stands on no command line.": (
        "tests/security/test_task_file.py::test_an_input_reaches_its_command_and_no_command_line",
        "tests/security/test_task_file.py::test_a_private_command_is_run_and_stands_in_no_command_line",
    ),
    "The task file is readable by its user alone, and is removed with its task.": (
        "tests/security/test_task_file.py::test_task_files_are_readable_by_their_user_alone",
        "tests/security/test_task_file.py::test_every_end_of_a_task_removes_its_files",
    ),
    "Every request with an id that can be read gets exactly one answer with that id.": (
        "tests/security/test_requests_answered.py::test_every_request_through_a_relay_gets_exactly_one_answer_under_its_id",
    ),
    "A malformed request is answered by the relay, and no daemon gets it.": (
        "tests/integration/test_relay_wire.py::test_what_is_malformed_is_answered_by_the_relay_and_no_daemon_ever_gets_it",
    ),
    "After a kill -9 of the daemon nothing is answered twice.": (
        "tests/security/test_requests_answered.py::test_after_all_of_it_and_a_kill_nothing_is_sent_again_and_nothing_answered_twice",
    ),
    "If two installations do not fit, every waiting request gets that error at once.": (
        "tests/integration/test_relay_start.py::test_a_mismatch_of_protocols_is_told_at_the_first_refusal_to_all_that_wait",
    ),
    "Without a token of this `orchestrator web` a page holds no data of the project.": (
        "tests/unit/faces/test_web_guard.py::test_a_shell_needs_no_token_and_holds_no_data",
        "tests/unit/faces/test_web_guard.py::test_data_and_answers_need_a_token_that_was_issued",
    ),
    "A token is accepted only in its header; there are no cookies, and we write it into no file, environment or command line.": (
        "tests/unit/faces/test_web_guard.py::test_a_token_counts_in_its_header_only",
        "tests/security/test_web.py::test_the_token_is_in_no_file_no_environment_and_no_command_line",
    ),
    "The link is shown on a terminal only.": (
        "tests/security/test_web.py::test_the_command_refuses_agents_and_shows_its_link_on_a_terminal_only",
    ),
    "A link that reads does not answer.": (
        "tests/unit/faces/test_web_guard.py::test_a_token_that_reads_does_not_answer",
    ),
    "A program below an agent or a squad member gets nothing from the web pages, even with the token.": (
        "tests/security/test_web.py::test_an_agent_that_knows_the_token_gets_nothing_and_approves_nothing",
        "tests/unit/faces/test_web_guard.py::test_a_peer_that_comes_from_an_agent_gets_nothing_even_with_a_token",
    ),
    "A program below an AI CLI that leads gets nothing from the web pages, even with the token.": (
        "tests/security/test_web.py::test_what_runs_below_a_master_gets_nothing",
    ),
    "Another user of the machine gets nothing from the web pages, even with the token.": (
        "tests/security/test_web.py::test_another_user_of_the_machine_gets_nothing",
    ),
    "A program of unknown origin reads the web pages and answers nothing.": (
        "tests/unit/faces/test_web_guard.py::test_a_peer_of_unknown_origin_reads_only",
    ),
    "A page of another site, a name that was pointed to this machine, and a form get nothing from the web pages.": (
        "tests/unit/faces/test_web_guard.py::test_a_request_of_another_site_is_refused",
        "tests/unit/faces/test_web_guard.py::test_another_host_is_refused_also_for_the_shell",
        "tests/unit/faces/test_web_guard.py::test_an_answer_that_a_form_could_send_is_refused",
    ),
    "Text of agents, files and models stays text on the web pages, and no file of an agent is served as a page.": (
        "tests/security/test_web.py::test_a_script_in_any_text_of_an_agent_stays_text",
        "tests/security/test_web.py::test_no_path_leads_out_of_the_artifacts",
    ),
    "No path of the web pages leads out of an agent's artifacts.": (
        "tests/security/test_web.py::test_no_path_leads_out_of_the_artifacts",
    ),
    "Slow, malformed and very many requests keep nobody else from the web pages.": (
        "tests/security/test_web.py::test_whoever_sends_half_a_request_is_dropped_and_keeps_nobody_waiting",
        "tests/security/test_web.py::test_connections_that_say_nothing_keep_nobody_from_the_pages",
        "tests/security/test_web.py::test_a_malformed_request_is_refused_and_its_connection_closed",
        "tests/security/test_web.py::test_a_thousand_pages_are_served_the_next_is_refused_and_ctrl_c_ends_all",
        "tests/unit/faces/test_web_guard.py::test_wrong_tokens_are_slowed_down_and_never_lock_the_owner_out",
    ),
    "For other machines the web pages need TLS, or a proxy that has it, and a one-time code is exchanged once.": (
        "tests/security/test_web.py::test_listening_for_other_machines_needs_tls_and_takes_a_code_once",
        "tests/security/test_web.py::test_tls_files_that_do_not_serve_are_refused_before_a_link_is_shown",
        "tests/integration/test_web.py::test_a_proxy_with_tls_passes_on_pages_streams_and_answers",
    ),
    "Instructions in tasks, results, file names, roles and planning files cannot give trust, type into a pane or run a command.": (
        "tests/security/test_injection.py::test_instructions_in_names_roles_tasks_results_and_file_names_reach_no_shell_no_pane_and_no_trust",
        "tests/security/test_injection.py::test_instructions_in_roles_and_planning_files_are_read_and_nothing_else",
        "tests/security/test_injection.py::test_instructions_in_a_models_answers_are_merged_as_text",
    ),
    "`agent_delete` asks the agent to stop first, and `force` needs `confirm` with the agent's id.": (
        "tests/acceptance/test_ac4_cancel.py::test_deleting_asks_first_and_force_needs_to_be_confirmed",
    ),
    "Only panes that carry our tag are killed, and check and act are one tmux invocation.": (
        "tests/integration/test_panes_guard.py::test_kill_ends_a_pane_with_our_tag_and_never_another",
        "tests/integration/test_panes_guard.py::test_kill_checks_and_acts_in_one_invocation",
    ),
    "A path or an id that leaves the project is refused, links included.": (
        "tests/acceptance/test_bad_input.py::test_a_masters_bad_call_gets_a_coded_error_and_nothing_is_written",
    ),
    "Looking writes nothing into a directory, and the home directory and `/` are no projects.": (
        "tests/acceptance/test_identity.py::test_looking_writes_nothing_into_a_directory",
        "tests/acceptance/test_identity.py::test_the_home_directory_and_the_root_are_no_projects",
    ),
    "The run data is private and ignored by git.": (
        "tests/acceptance/test_files.py::test_the_run_data_is_private_and_ignored_by_git_and_files_of_others_are_left_alone",
    ),
    "The secret of an agent stands in its private launch file and nowhere else.": (
        "tests/acceptance/test_identity.py::test_the_secret_stands_in_the_private_launch_file_and_nowhere_else",
    ),
    "Only MCP messages reach the standard output of a relay.": (
        "tests/acceptance/test_ac5_purity.py::test_noise_of_imports_and_bad_lines_of_a_client_never_reach_stdout",
    ),
}
