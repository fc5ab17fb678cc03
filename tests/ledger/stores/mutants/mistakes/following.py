"""Mistakes in how follow-ups are accepted, held, put off and promoted."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

FOLLOW = "INSERT INTO {follow_up}"
HELD = "{shared}"
PROMOTE = "generation = generation + 1"
LATER = "{created_plus_longest}"

FOLLOW_UPS = [
    Mutation(
        "a call follows a key that does not run",
        "(k.state = 2 OR",
        "(k.state > 0 OR",
        "nothing_follows_a_key_that_does_not_run",
        where=FOLLOW,
    ),
    Mutation(
        "a cancelled run is not followed",
        "k.state = 6 AND",
        "k.state = 0 AND",
        "a_call_follows_a_cancelled_run_until_its_body_has_been_told_of_that",
        where=FOLLOW,
    ),
    Mutation(
        "a cancelled run is followed for ever",
        "> {now}",
        "IS NOT NULL",
        "a_call_follows_a_cancelled_run_until_its_body_has_been_told_of_that",
        where=FOLLOW,
    ),
    Mutation(
        "a call follows a key of another scope",
        "AND k.scope {same} %(scope)s",
        "",
        "a_call_does_not_follow_a_key_of_another_task_or_scope",
        where=FOLLOW,
    ),
    Mutation(
        "a call follows a key of another task",
        "AND k.task = %(task)s",
        "",
        "a_call_does_not_follow_a_key_of_another_task_or_scope",
        where=FOLLOW,
    ),
    Mutation(
        "a second call takes the follow-up's place",
        "DO NOTHING",
        "DO UPDATE SET task_id = excluded.task_id",
        "of_several_calls_one_follows",
        where=FOLLOW,
    ),
    Mutation(
        "a follow-up is not kept until its time",
        "{after[wait]}",
        "{now}",
        "a_follow_up_waits_for_its_time_without_a_message",
        where=FOLLOW,
    ),
    Mutation(
        "what runs is held",
        "state IN (1, 3)",
        "state IN (1, 2, 3)",
        "what_runs_or_has_ended_is_not_held",
        where=HELD,
    ),
    Mutation(
        "what retries is not held",
        "state IN (1, 3)",
        "state = 1",
        "what_runs_or_has_ended_is_not_held",
        where=HELD,
    ),
    Mutation(
        "another follow-up gets the message",
        "WHERE digest = %(digest)s",
        "WHERE digest <> %(digest)s",
        "a_follow_up_gets_the_newest_message_and_nobody_else_s",
        where="UPDATE {follow_up} SET message",
    ),
    Mutation(
        "another call's message is rewritten",
        "AND task_id = %(task_id)s",
        "",
        "a_call_that_was_sent_or_is_another_one_keeps_its_message",
        where="sends = -1",
    ),
    Mutation(
        "a message that was sent is rewritten",
        "AND sends = -1",
        "",
        "a_call_that_was_sent_or_is_another_one_keeps_its_message",
        where="AND task_id = %(task_id)s",
    ),
    Mutation(
        "a message whose time has come is rewritten",
        "AND due_at > {now}",
        "",
        "a_call_that_was_sent_or_is_another_one_keeps_its_message",
        where="AND task_id = %(task_id)s",
    ),
    Mutation(
        "what was sent is put off",
        "AND sends = -1",
        "",
        "a_call_whose_time_has_come_is_not_put_off",
        where=LATER,
    ),
    Mutation(
        "what is due is put off",
        "AND due_at > {now}",
        "",
        "a_call_whose_time_has_come_is_not_put_off",
        where=LATER,
    ),
    Mutation(
        "what runs is put off",
        "state = 1 AND",
        "",
        "a_call_whose_time_has_come_is_not_put_off",
        where=LATER,
    ),
    Mutation(
        "a call is put off for ever",
        "{least}({after[wait]}, {created_plus_longest})",
        "{after[wait]}",
        "a_call_is_put_off_no_longer_than_was_said_since_it_was_made",
    ),
    Mutation(
        "a call is put forward",
        "AND due_at < ",
        "AND due_at <> ",
        "no_call_is_put_forward",
        where=LATER,
    ),
    Mutation(
        "a live key is given on",
        "k.state >= 4",
        "k.state >= 1",
        "a_live_key_is_not_given_on",
    ),
    Mutation(
        "a key in review is not given on",
        "k.state >= 4",
        "k.state >= 5",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
    ),
    Mutation(
        "a cancelled run is not waited for",
        "k.state = 6 AND",
        "k.state = 0 AND",
        "a_cancelled_run_has_a_lease_to_end_before_its_follow_up_begins",
    ),
    Mutation(
        "the end of a cancelled body is not believed",
        "k.token = %(token)s + 1 OR",
        "",
        "the_follow_up_of_a_cancelled_run_begins_once_that_has_ended",
    ),
    Mutation(
        "the end of any body is believed",
        "k.token = %(token)s + 1",
        "k.token > %(token)s",
        "a_cancelled_run_has_a_lease_to_end_before_its_follow_up_begins",
    ),
    Mutation(
        "a key that is gone keeps its follow-up waiting",
        "k.digest IS NULL OR",
        "",
        "a_follow_up_whose_key_is_gone_gets_it_anew",
    ),
    Mutation(
        "the keys that go on are not bounded",
        "LIMIT %(bite)s",
        "",
        "the_keys_that_can_be_given_on_are_found_a_bite_at_a_time",
        where="LEFT JOIN {key}",
    ),
    Mutation(
        "a promotion keeps the generation",
        PROMOTE,
        "generation = generation",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
    ),
    Mutation(
        "a promotion keeps the token",
        "SET token = token + 1, generation",
        "SET token = token, generation",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
    ),
    Mutation(
        "a promotion keeps the error",
        "result = NULL",
        "result = result",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
        where=PROMOTE,
    ),
    Mutation(
        "a promotion keeps the dead letter's signature",
        "signature = NULL",
        "signature = signature",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
        where=PROMOTE,
    ),
    Mutation(
        "a promotion counts on with the attempts",
        "attempts = 0",
        "attempts = attempts",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
        where=PROMOTE,
    ),
    Mutation(
        "a promoted call counts as made when it was promoted",
        "created_at = (SELECT f.created_at FROM {follow_up} f WHERE f.digest = %(digest)s)",
        "created_at = {now}",
        "a_follow_up_waits_for_its_time_without_a_message",
        where=PROMOTE,
    ),
    Mutation(
        "the follow-up stays after its promotion",
        "WHERE digest = %(digest)s",
        "WHERE digest <> %(digest)s",
        "however_a_run_ends_its_key_goes_on_with_the_follow_up",
        where="DELETE FROM {follow_up}",
    ),
    Mutation(
        "the steps of the run before are not forgotten",
        "WHERE digest = %(digest)s",
        "WHERE digest <> %(digest)s",
        "the_steps_of_the_run_before_go",
        where="DELETE FROM {step}",
    ),
    Mutation(
        "the ended call is not answered",
        "WHERE k.digest = %(digest)s",
        "WHERE k.digest <> %(digest)s",
        "the_call_that_ended_and_the_one_that_took_it_over_stay_answerable",
        where="%(ended_id)s",
    ),
    Mutation(
        "a cancelled follow-up has no answer",
        "WHERE f.digest = %(digest)s",
        "WHERE f.digest <> %(digest)s",
        "a_follow_up_is_cancelled_by_its_key_or_its_task_id",
        where="INSERT INTO {answered}",
    ),
]

#: The whole database of SQLite is locked.
FOLLOW_UPS_POSTGRESQL = [
    Mutation(
        "a held call is claimed",
        "{shared}",
        "",
        "a_waiting_call_is_not_claimed_while_a_sender_holds_it",
    ),
    Mutation(
        "one sender keeps the others out",
        "{shared}",
        "{skip_locked}",
        "several_senders_hold_one_call_and_nobody_changes_it",
    ),
    Mutation(
        "a held follow-up is promoted",
        "{shared}",
        "",
        "a_follow_up_that_a_sender_holds_is_not_promoted_before",
    ),
    Mutation(
        "a follow-up is changed under its holder",
        "{skip_locked}",
        "",
        "a_message_is_not_changed_while_another_sender_holds_it",
        where="SELECT digest FROM {follow_up}",
    ),
    Mutation(
        "a call is rewritten under its holder",
        "{skip_locked}",
        "",
        "a_call_that_is_held_is_not_rewritten",
        where="sends = -1",
    ),
    Mutation(
        "a sender waits for another one to put a call off",
        "{skip_locked}",
        "",
        "a_call_that_another_sender_holds_is_not_waited_for",
        where=LATER,
    ),
    Mutation(
        "a promotion waits for a sender",
        "{skip_locked}",
        "{locked}",
        "a_follow_up_that_a_sender_holds_is_not_promoted_before",
        where="{due_in}",
    ),
]
