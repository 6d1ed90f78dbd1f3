"""The manifest, continued: project intelligence (B3.1 to B3.33), and what issue 7 must hold besides."""

from __future__ import annotations

from tests.manifest.team import Promise

SURFACE = "acceptance/test_gsd.py::test_"
CONTRACTS = "acceptance/test_gsd_contracts.py::test_"
AGENTS = "acceptance/test_gsd_agents.py::test_"
GOLDEN = "acceptance/test_gsd_golden.py::test_"

ALONE = f"{SURFACE}alone_it_is_the_server_of_the_document_and_offers_nothing_else"
BELOW = f"{SURFACE}a_project_is_found_from_any_directory_below_it"
NAMED = f"{SURFACE}the_argument_names_a_project_and_must_stay_inside"
VARIABLE = f"{SURFACE}the_connections_variable_comes_before_its_directory_and_is_its_own"
ROOTS = f"{SURFACE}a_clients_roots_come_before_its_directory_are_asked_once_and_again_when_they_change"
WITHOUT = f"{SURFACE}without_a_project_each_tool_says_so_in_the_documents_words"
LATER = f"{SURFACE}a_project_that_is_begun_later_is_found_by_the_next_call"
KEPT = "unit/gsd/test_projects.py::test_the_one_asked_least_recently_is_let_go"
AT_ONCE = f"{SURFACE}what_changes_on_the_disk_is_answered_at_once"
REAL = f"{SURFACE}every_tool_answers_about_every_real_tree"
DEFAULTS = f"{SURFACE}the_arguments_are_those_of_the_documents_with_their_defaults"
SHAPES = f"{SURFACE}every_answer_is_what_its_output_schema_says_and_names_its_project"
STANDS = f"{SURFACE}the_phase_and_the_requirements_of_a_project_are_told"
GRAPH = f"{SURFACE}the_code_graph_of_a_project_is_told"
UNTOUCHED = f"{SURFACE}nothing_is_written_into_a_project_whatever_is_asked"
FIXED = f"{SURFACE}the_fixed_resources_tell_what_the_project_says"
PHASES = f"{SURFACE}the_pages_of_a_phase_tell_its_files"
ENTITY = f"{SURFACE}an_entity_is_read_by_its_id_and_never_anything_else"
SENTENCES = f"{SURFACE}without_a_project_resources_are_sentences_and_no_errors"
TWO_NAMES = f"{SURFACE}each_prompt_has_two_names_and_three_optional_arguments"
FILLED = f"{SURFACE}the_prompts_are_filled_with_the_projects_facts"
ORDER = f"{SURFACE}the_prompts_say_which_tools_to_ask_and_in_which_order"
SETUP = f"{CONTRACTS}the_entry_that_setup_writes_starts_the_server_of_the_document"
FOUND = f"{CONTRACTS}files_are_found_by_path_and_purpose_and_ranked_by_the_score"
PURPOSE = f"{CONTRACTS}a_purpose_comes_from_the_entity_for_the_store_has_none"
COUNTED = f"{CONTRACTS}direct_dependents_are_counted_when_asked_for"
FILTERED = f"{CONTRACTS}the_type_filters_before_the_limit_cuts"
NO_SQL = f"{CONTRACTS}a_query_is_never_a_part_of_sql"
HOTSPOTS = f"{CONTRACTS}hotspots_are_the_most_depended_on_first_and_at_most_ten"
TEN = f"{CONTRACTS}more_than_ten_hotspots_are_cut_at_ten"
DISJOINT = f"{CONTRACTS}direct_and_transitive_dependents_are_disjoint_also_in_a_cycle"
CRITICAL = f"{CONTRACTS}critical_and_test_files_are_taken_over_both"
DEPTH = f"{CONTRACTS}the_depth_is_kept_to"
ADVICE = f"{CONTRACTS}the_recommendation_goes_by_the_kind_of_change_and_by_what_it_reaches"
UNKNOWN = f"{CONTRACTS}a_file_that_nobody_knows_is_not_called_safe"
BEHAVIOUR = f"{CONTRACTS}a_behaviour_is_verified_by_lines_and_what_nothing_shows_is_not_known"
ENDPOINT = f"{CONTRACTS}an_endpoint_is_located_with_its_method_and_middleware_and_another_method_is_denied"
GOAL = f"{CONTRACTS}the_files_of_a_goal_come_best_first_and_with_what_was_asked_for"
PATTERN = f"{CONTRACTS}a_pattern_is_counted_and_shown_by_a_real_line_if_wanted"
PAST = f"{CONTRACTS}past_work_that_is_alike_comes_with_what_it_decided_learned_and_made"
CONFINED = f"{CONTRACTS}an_entity_is_only_what_lies_among_the_entities"
VISION = f"{CONTRACTS}the_vision_is_that_of_either_heading_and_the_core_value"
BARE = f"{CONTRACTS}without_graph_and_index_every_tool_answers_with_empty_lists"
QUIET = f"{CONTRACTS}the_users_hooks_are_never_switched_on_and_the_tree_is_left_as_it_was"
BROKEN = f"{CONTRACTS}a_broken_store_costs_that_store_alone_and_is_told"
LOCKED = f"{CONTRACTS}a_locked_store_is_waited_for_or_told_and_never_half_read"
BYTES = f"{CONTRACTS}lines_of_windows_and_bytes_that_are_no_text_are_read"
ANSWERS = f"{GOLDEN}the_answers_about_a_real_tree_are_those_that_were_reviewed"

PROMISES: dict[str, Promise] = {
    "B3.1": Promise(
        "One server serves every project and knows which one is meant.",
        (
            BELOW,
            NAMED,
            VARIABLE,
            ROOTS,
            f"{SURFACE}a_client_that_says_nothing_of_use_has_no_roots",
            f"{SURFACE}a_client_that_never_answers_has_no_roots",
            f"{SURFACE}a_client_without_roots_is_not_asked",
        ),
    ),
    "B3.2": Promise("A project is found by walking up; none is found where there is none.", (BELOW, WITHOUT, LATER)),
    "B3.3": Promise("The tools are always there; without a project they say the document's sentence.", (WITHOUT,)),
    "B3.4": Promise(
        "What was read is kept, and never older than the files.",
        (KEPT, AT_ONCE, f"{SURFACE}a_subscriber_hears_when_the_files_of_its_project_change"),
    ),
    "B3.5": Promise("Project, roadmap, intel and phases are read.", (REAL, STANDS, GRAPH)),
    "B3.6": Promise("Setup registers it without destroying a key, also in the document's form.", (SETUP,)),
    "B3.7": Promise("Alone, the server is called gsd, version 1.0.0, over stdio.", (ALONE,)),
    "B3.8": Promise(
        "gsd_query_intel has five parameters with defaults; purposes, dependents, filter before limit.",
        (DEFAULTS, FOUND, PURPOSE, COUNTED, FILTERED),
    ),
    "B3.9": Promise(
        "gsd_blast_radius has three parameters; counts, critical and test files, a recommendation, details.",
        (
            DEFAULTS,
            DISJOINT,
            CRITICAL,
            ADVICE,
            f"{CONTRACTS}a_file_is_known_by_its_path_its_id_and_the_path_of_another_machine",
            f"{CONTRACTS}a_store_without_imports_makes_no_file_safe",
            f"{CONTRACTS}a_file_is_safe_where_its_importers_would_be_known",
        ),
    ),
    "B3.10": Promise("gsd_verify_behavior takes must_have and check_type.", (DEFAULTS, BEHAVIOUR, ANSWERS)),
    "B3.11": Promise("gsd_verify_artifact takes must_exist and check_type.", (DEFAULTS, GRAPH, ENDPOINT)),
    "B3.12": Promise("gsd_requirement_status takes requirement_id.", (DEFAULTS, STANDS, ANSWERS)),
    "B3.13": Promise("gsd_phase_status tells where the project stands.", (STANDS, ANSWERS)),
    "B3.14": Promise("gsd_phase_relevant_files takes a goal and two switches.", (DEFAULTS, GOAL, ANSWERS)),
    "B3.15": Promise("gsd_codebase_patterns takes query and include_examples.", (DEFAULTS, PATTERN, ANSWERS)),
    "B3.16": Promise("gsd_similar_past_work takes current_goal.", (DEFAULTS, PAST, ANSWERS)),
    "B3.17": Promise("Hotspots are the ten files most others depend on.", (HOTSPOTS, TEN)),
    "B3.18": Promise("A blast radius goes as deep as asked and no deeper.", (DISJOINT, DEPTH)),
    "B3.19": Promise("Search is by keyword in path and purpose, and no text becomes SQL.", (FOUND, NO_SQL)),
    "B3.20": Promise("A purpose comes from the entity.", (PURPOSE,)),
    "B3.21": Promise("gsd://intel/summary has a fallback text.", (FIXED, SENTENCES)),
    "B3.22": Promise("gsd://intel/hotspots shows ten.", (FIXED, TEN)),
    "B3.23": Promise("gsd://intel/conventions is JSON.", (FIXED,)),
    "B3.24": Promise("gsd://intel/entity/{id} is confined and has a fallback text.", (ENTITY, CONFINED, SENTENCES)),
    "B3.25": Promise("gsd://project/vision is vision and core value.", (FIXED, VISION)),
    "B3.26": Promise("gsd://project/requirements/pending lists what is open, under both URIs.", (FIXED,)),
    "B3.27": Promise("gsd://project/decisions shows the key decisions.", (FIXED,)),
    "B3.28": Promise("gsd://phase/… shows a phase and its files.", (PHASES, FIXED)),
    "B3.29": Promise(
        "spawn/planner, spawn/executor and spawn/verifier are prompts.",
        (
            TWO_NAMES,
            FILLED,
            f"{SURFACE}the_arguments_of_a_prompt_choose_phase_goal_and_plan",
            f"{SURFACE}without_a_project_a_prompt_says_so_and_works",
        ),
    ),
    "B3.30": Promise(
        "Planner, executor and verifier are told the order of their calls, and above ten dependents what to do.",
        (ORDER, ADVICE, f"{AGENTS}it_is_offered_its_two_tools_and_the_twelve_and_no_more"),
    ),
    "B3.31": Promise(
        "The hooks capture, this serves: nothing is written unless an index is asked for.", (UNTOUCHED, QUIET)
    ),
    "B3.32": Promise("The structure of .planning/ stays as it is.", (UNTOUCHED, QUIET)),
    "B3.33": Promise("Without graph and index every tool still answers.", (BARE,)),
    "GSD1": Promise(
        "Answers about the real trees are those that were reviewed by hand, in the promised shapes.",
        (ANSWERS, SHAPES),
    ),
    "GSD2": Promise(
        "Corrupt, locked and mangled stores give right answers or clear errors.", (BROKEN, LOCKED, BYTES, UNKNOWN)
    ),
    "GSD3": Promise(
        "A connection has the tools only if it chose the toolset, in each era, and their descriptions are short.",
        (
            f"{SURFACE}beside_other_toolsets_it_is_one_of_them",
            f"{SURFACE}other_connections_have_none_of_it",
            f"{SURFACE}the_tools_are_described_for_every_client_and_cost_few_tokens",
            f"{SURFACE}the_modern_era_has_tools_resources_and_prompts",
            f"{AGENTS}an_agent_without_them_finds_no_such_tool",
            f"{AGENTS}who_does_not_prove_to_be_it_is_refused",
            f"{AGENTS}a_master_of_the_team_toolset_alone_has_none_of_them",
        ),
    ),
    "GSD4": Promise(
        "An agent has the tools that its role named at its launch, and keeps them when the daemon is restarted.",
        (
            f"{AGENTS}its_start_says_so_and_its_meta_shows_it",
            f"{AGENTS}it_is_told_which_further_tools_it_has_and_others_are_not",
            f"{AGENTS}a_call_is_answered_and_leaves_no_record",
            f"{AGENTS}a_life_that_was_replaced_is_refused_and_the_next_one_has_the_tools_whatever_its_role_says_by_then",
            f"{AGENTS}a_daemon_that_was_killed_comes_back_with_the_agents_tools",
        ),
    ),
    "GSD5": Promise(
        "A bad argument, URI or prompt is refused by name or code.",
        (
            f"{SURFACE}a_bad_argument_is_refused_by_name",
            f"{SURFACE}a_uri_of_no_resource_is_refused_by_code",
            f"{SURFACE}a_phase_that_is_not_there_is_refused_by_code",
            f"{SURFACE}a_bad_argument_of_a_prompt_is_refused_by_code",
            f"{SURFACE}an_unknown_prompt_is_told_those_that_are_offered",
        ),
    ),
    "GSD6": Promise(
        "A reading process that is killed and a call that is canceled harm nothing else.",
        (
            f"{SURFACE}the_team_goes_on_when_the_reading_process_is_killed",
            f"{SURFACE}progress_is_told_while_a_call_lasts_and_a_canceled_one_harms_no_other",
        ),
    ),
}
