"""The protections that SECURITY.md names, each with a patch that takes it out and the test that must fail then.

A patch is a text that stands once in a file, and what takes its place. The test looks from outside: at an answer, at
rows, at an exit code. `stays` is a test of ordinary use of the same code: with the patch it still passes, so that
what fails the other is the missing protection and not a broken file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Protection:
    """One that can be taken out."""

    name: str
    file: str
    text: str
    instead: str
    test: str
    stays: str


SERVING = "tests/app/test_serving.py"
SIGN_INS = "tests/unit/test_access_sign_ins.py"
KEPT = "tests/unit/test_kept_variants.py"
GROWING = "tests/evals/test_files_that_grow.py"
ARCHIVES = "tests/evals/test_hostile_archives.py"
BEIR = "tests/evals/test_sources_beir.py"
ACCESS = "tests/unit/test_access.py"
BACKUP = "tests/evals/test_backup.py"

PROTECTIONS: Final = (
    # -- files and texts
    Protection(
        "a file of TOML has a size",
        "core/small_files.py",
        "if max(found.st_size, len(content)) > most:",
        "if False:",
        f"{KEPT}::test_a_file_that_nobody_wrote_by_hand_is_not_read",
        f"{KEPT}::test_a_look_up_parses_only_what_changed",
    ),
    Protection(
        "a file of TOML is a plain one",
        "core/small_files.py",
        "if not stat.S_ISREG(found.st_mode):",
        "if False:",
        f"{KEPT}::test_a_link_to_a_device_in_the_folder_delays_no_look_up",
        f"{KEPT}::test_a_look_up_parses_only_what_changed",
    ),
    Protection(
        "front matter is loaded safely",
        "evals/sources/front_matter.py",
        "class _Loader(yaml.SafeLoader):",
        "class _Loader(yaml.UnsafeLoader):",
        "tests/evals/test_sources_folder.py::test_front_matter_makes_nothing_of_pythons_own",
        "tests/evals/test_sources_folder.py::test_front_matter_becomes_metadata_and_leaves_the_text",
    ),
    Protection(
        "front matter has no aliases",
        "evals/sources/front_matter.py",
        "if self.check_event(yaml.AliasEvent):",
        "if False:",
        "tests/evals/test_sources_folder.py::test_front_matter_is_read_safely",
        "tests/evals/test_sources_folder.py::test_front_matter_becomes_metadata_and_leaves_the_text",
    ),
    Protection(
        "bytes are counted as they come out of an archive",
        "evals/sources/trees.py",
        "self._budget.spend(len(block))",
        "pass",
        f"{BEIR}::test_bytes_are_counted_where_the_directory_says_nothing",
        f"{ARCHIVES}::test_nothing_is_ever_written_to_disk_whatever_names_say",
    ),
    Protection(
        "a path that leads out of an archive refuses it",
        "evals/sources/trees.py",
        '(".." in PurePosixPath(name).parts, "leads out of the archive"),',
        "",
        f"{BEIR}::test_archives_with_paths_that_lead_elsewhere_are_refused",
        f"{BEIR}::test_one_bad_row_costs_that_row_alone_and_names_its_line",
    ),
    Protection(
        "a link in an archive refuses it",
        "evals/sources/trees.py",
        '(stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR), "is a link or a device"),',
        "",
        f"{BEIR}::test_archives_with_links_are_refused",
        f"{BEIR}::test_one_bad_row_costs_that_row_alone_and_names_its_line",
    ),
    Protection(
        "a batch of Parquet has few rows where values may be long",
        "evals/sources/parquet_rows.py",
        "rows = max(FEWEST, min(BATCH, DECODED // max(1, *sizes, 1)))",
        "rows = BATCH",
        f"{GROWING}::test_a_dictionarys_entry_is_not_decoded_for_all_rows_at_once",
        f"{GROWING}::test_texts_in_lists_come_back_as_they_were",
    ),
    Protection(
        "rows of Parquet are charged with what they become",
        "evals/sources/parquet_rows.py",
        "budget.spend(int(sizes[at : at + step].sum()))",
        "pass",
        f"{GROWING}::test_a_list_of_one_row_takes_no_more_memory_than_there_is_for_it",
        f"{GROWING}::test_texts_in_lists_come_back_as_they_were",
    ),
    Protection(
        "lists of Parquet are decoded in so much memory",
        "evals/sources/parquet_rows.py",
        "resource.setrlimit(resource.RLIMIT_AS, (used + {ROOM},) * 2)",
        "pass",
        f"{GROWING}::test_a_list_of_one_row_takes_no_more_memory_than_there_is_for_it",
        f"{GROWING}::test_texts_in_lists_come_back_as_they_were",
    ),
    Protection(
        "a record of CSV has a length",
        "evals/sources/tables.py",
        "if self.length > self.longest:",
        "if False:",
        f"{GROWING}::test_a_record_of_many_lines_ends_where_one_line_would_have_to",
        "tests/evals/test_sources_tabular.py::test_the_line_reported_is_where_a_quoted_record_starts",
    ),
    Protection(
        "a line of JSON holds so many values",
        "evals/sources/lines.py",
        "if (parts := _parts(line.value)) > MOST_PARTS:",
        "if (parts := 0):",
        f"{GROWING}::test_a_line_of_json_holds_so_many_values_and_as_much_text_as_there_is_room_for",
        "tests/evals/test_sources_tabular.py::test_json_lines_keep_types_and_bad_lines_their_places",
    ),
    Protection(
        "a run has room in memory",
        "evals/exchange.py",
        "if left < 0:",
        "if False:",
        f"{GROWING}::test_a_run_that_has_no_room_in_memory_is_refused_with_a_way_out",
        "tests/evals/test_exchange.py::test_a_run_comes_back_as_it_was_written",
    ),
    Protection(
        "a backup's parts have digests",
        "evals/backup/reading.py",
        "if digest.hexdigest() != listed.sha256 or size",
        "if size",
        "tests/drills/faults/test_backup_faults.py::test_no_bit_flipped_before_packing_gets_into_the_store",
        "tests/drills/faults/test_backup_faults.py::test_two_backups_to_one_place_do_not_mix",
    ),
    Protection(
        "a file of a backup stays in its folder",
        "evals/backup/home_files.py",
        "return short and name.endswith(ENDINGS[folder]) and _NAME.fullmatch(name) is not None",
        "return short",
        f"{BACKUP}::test_a_files_name_never_leads_out_of_its_folder",
        f"{BACKUP}::test_a_part_that_is_not_what_was_written_is_refused",
    ),
    Protection(
        "a stale pid file stops no start",
        "core/store/keeper.py",
        '(cluster / "data" / "postmaster.pid").unlink(missing_ok=True)',
        "pass",
        "tests/drills/faults/test_server.py::"
        "test_a_stale_pid_file_that_names_a_living_stranger_is_no_obstacle_and_the_stranger_lives_on",
        f"{SERVING}::test_the_health_endpoint_says_that_the_store_answers_and_nothing_else",
    ),
    # -- what is shown
    Protection(
        "HTML in prose is text",
        "workbench/book/markdown.py",
        'for name in ("html_block", "html_inline"):',
        "for name in ():",
        "tests/unit/test_book_document.py::test_html_in_prose_is_text_and_pictures_are_words",
        "tests/unit/test_book_document.py::test_cells_are_the_fenced_blocks_of_known_kinds",
    ),
    Protection(
        "a report in Markdown holds texts as text",
        "evals/report/markdown.py",
        'plain = re.sub("[&<>]", lambda found: _ENTITIES[found[0]], line(text, 2000))',
        "plain = line(text, 2000)",
        "tests/evals/test_report.py::test_hostile_texts_stay_texts_in_markdown",
        "tests/evals/test_report.py::test_latex_is_a_booktabs_table_with_the_top_group_bold",
    ),
    Protection(
        "a report in LaTeX holds texts as text",
        "evals/report/latex.py",
        "if each in _SPECIAL:",
        "if False:",
        "tests/evals/test_report.py::test_hostile_texts_stay_texts_in_latex",
        "tests/evals/test_report.py::test_markdown_has_the_table_sentences_warnings_and_variants",
    ),
    Protection(
        "a terminal is not taken over",
        "workbench/commands/telling.py",
        "sys.stdout.write(printable(text) if sys.stdout.isatty() else text)",
        "sys.stdout.write(text)",
        "tests/unit/test_raw_output.py::test_a_terminal_gets_nothing_that_could_take_it_over",
        "tests/unit/test_raw_output.py::test_a_pipe_gets_every_letter",
    ),
    # -- SQL
    Protection(
        "a name can be seen",
        "core/store/names.py",
        'if unicodedata.category(letter)[0] == "C"), None):',
        "if False), None):",
        "tests/store/test_hostile_names.py::test_a_name_that_cannot_be_seen_is_refused_with_the_reason",
        "tests/store/test_hostile_names.py::test_an_accent_typed_apart_names_the_same_collection",
    ),
    # -- language models and endpoints
    Protection(
        "a model marks what it was sent",
        "core/rerank/marking.py",
        "if set(rows) - set(candidates):",
        "if False:",
        "tests/unit/test_prompt_injection.py::"
        "test_an_answer_that_does_more_than_mark_what_was_offered_is_not_believed_at_all",
        "tests/unit/test_prompt_injection.py::"
        "test_a_model_that_obeys_a_candidate_changes_the_order_among_the_candidates_and_nothing_else",
    ),
    Protection(
        "OpenAI's key goes to OpenAI alone",
        "core/embedding/openai_backend.py",
        'if self.host == OPENAI else ""',
        "or self.host",
        "tests/unit/test_embedding_openai.py::test_openais_key_goes_to_openai_alone",
        "tests/unit/test_llm_chat.py::test_the_key_goes_into_the_header_and_nowhere_else",
    ),
    Protection(
        "calls have a cap",
        "core/llm/spending.py",
        "if self.tokens + wanted.tokens > cap.tokens:",
        "if False:",
        "tests/unit/test_llm_chat.py::test_above_the_cap_nothing_is_sent",
        "tests/unit/test_llm_chat.py::test_the_key_goes_into_the_header_and_nowhere_else",
    ),
    Protection(
        "an endpoint's answer has a size",
        "core/llm/posting.py",
        "if len(parts) > largest:",
        "if False:",
        "tests/drills/faults/test_endpoints.py::test_an_answer_that_is_too_long_is_left_at_the_cap_and_not_when_time_is_up",
        "tests/unit/test_llm_chat.py::test_the_key_goes_into_the_header_and_nowhere_else",
    ),
    # -- serving
    Protection(
        "the guard stands before Streamlit",
        "workbench/serve.py",
        "guards = [Middleware(OriginGuard, names), Middleware(UploadGuard)]",
        "guards = [Middleware(UploadGuard)]",
        f"{SERVING}::test_a_page_of_another_port_of_this_machine_opens_no_websocket_and_sends_nothing",
        f"{SERVING}::test_the_health_endpoint_says_that_the_store_answers_and_nothing_else",
    ),
    Protection(
        "Origin is Host",
        "workbench/serve_origin.py",
        "if len(hosts) != 1 or not _is_same(origin, hosts[0]):",
        "if False:",
        f"{SERVING}::test_a_page_acts_on_the_server_alone_that_it_came_from",
        f"{SERVING}::test_what_is_no_upload_passes",
    ),
    Protection(
        "Host is a name of ours",
        "workbench/serve_origin.py",
        "if not self._hosts.include(host):",
        "if False:",
        f"{SERVING}::test_another_name_for_this_machine_reaches_nothing",
        f"{SERVING}::test_the_health_endpoint_says_that_the_store_answers_and_nothing_else",
    ),
    Protection(
        "beyond loopback a sign-in is needed",
        "workbench/serve.py",
        "elif host not in LOOPBACK and not open_to_all:",
        "elif False:",
        f"{SERVING}::test_beyond_loopback_without_a_sign_in_is_refused_unless_insisted_on",
        f"{SERVING}::test_on_loopback_nothing_is_asked_for",
    ),
    Protection(
        "files of a window are counted together",
        "workbench/serve_uploads.py",
        "if size + every - held.sizes.get(file, 0) > self.most:",
        "if size > self.most:",
        f"{SERVING}::test_the_files_of_a_window_are_counted_together",
        f"{SERVING}::test_a_window_uploads_as_long_as_its_page_allows_it",
    ),
    Protection(
        "a sign-in ends at sign-out",
        "workbench/access/cookies.py",
        "self._gate.sign_ins.end(person)",
        "pass",
        f"{SIGN_INS}::test_a_copied_cookie_stops_working_at_sign_out",
        f"{SIGN_INS}::test_the_servers_figures_are_for_those_alone_who_may_see_its_pages",
    ),
    Protection(
        "a sign-in ends after its time",
        "workbench/access/sign_ins.py",
        "return self._until(self._file(said)) > self._now()",
        "return self._until(self._file(said)) > 0",
        f"{SIGN_INS}::test_a_sign_in_is_over_when_its_cookie_is",
        f"{SIGN_INS}::test_a_sign_in_counts_from_its_beginning_to_its_end_after_a_restart_too",
    ),
    Protection(
        "a sign-in that ended has no role",
        "workbench/access/gate.py",
        'or not told.get("is_logged_in") or self.has_ended(told):',
        'or not told.get("is_logged_in"):',
        f"{SIGN_INS}::test_a_cookie_that_is_signed_but_was_never_handed_out_lets_nobody_in",
        f"{SIGN_INS}::test_they_are_few_whoever_signs_in_how_often",
    ),
    Protection(
        "logs hold no secret",
        "workbench/logs.py",
        "for pattern, instead in _PATTERNS:",
        "for pattern, instead in ():",
        "tests/unit/test_logs.py::test_what_looks_like_a_secret_is_left_out_wherever_it_stands",
        "tests/unit/test_logs.py::test_queries_in_addresses_are_left_out_unless_asked_for",
    ),
    Protection(
        "logs hold no query",
        "workbench/logs.py",
        "return said if self.queries else",
        "return said if True else",
        "tests/unit/test_logs.py::test_queries_in_addresses_are_left_out_unless_asked_for",
        "tests/unit/test_logs.py::test_what_looks_like_a_secret_is_left_out_wherever_it_stands",
    ),
    Protection(
        "an ID token is signed by the provider alone",
        "workbench/access/cookies.py",
        "not in ALGORITHMS:",
        "in ():",
        f"{SIGN_INS}::test_a_token_counts_only_where_the_provider_alone_can_have_signed_it",
        f"{SIGN_INS}::test_the_servers_figures_are_for_those_alone_who_may_see_its_pages",
    ),
    Protection(
        "the server's figures need a role",
        "workbench/access/cookies.py",
        "elif path.endswith(FIGURES) and not self._gate.lets_in(self._person(_sent(scope))):",
        "elif False:",
        f"{SIGN_INS}::test_the_servers_figures_are_for_those_alone_who_may_see_its_pages",
        f"{SIGN_INS}::test_signing_in_anew_ends_the_sign_in_that_it_takes_the_place_of",
    ),
    Protection(
        "an address counts where it is verified",
        "workbench/access/people.py",
        'return said is True or said == "true"  # as a text, where the provider writes all claims so',
        "return True",
        f"{ACCESS}::test_an_address_that_the_provider_does_not_vouch_for_gives_no_role_and_signs_no_grade",
        f"{ACCESS}::test_a_file_that_others_can_write_lets_nobody_in",
    ),
    Protection(
        "access.toml is written by its owner alone",
        "workbench/access/people.py",
        "if others_may(found, WRITABLE):",
        "if False:",
        f"{ACCESS}::test_a_file_that_others_can_write_lets_nobody_in",
        f"{ACCESS}::test_a_file_that_others_can_read_is_refused",
    ),
    Protection(
        "secrets.toml is read by its owner alone",
        "workbench/access/sign_in.py",
        "if others_may(file.stat(), OTHERS):",
        "if False:",
        f"{ACCESS}::test_a_file_that_others_can_read_is_refused",
        f"{ACCESS}::test_a_file_that_others_can_write_lets_nobody_in",
    ),
)
