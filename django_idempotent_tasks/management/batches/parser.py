"""Adds the verbs of ``idem batches``, with their options."""

from __future__ import annotations

from ..cli.arguments import Parser, batch, batch_state, category, count, text
from ..cli.options import Groups, add, add_reason, add_task_and_scope, add_yes
from .decide import cancel_batch, redrive_batch
from .errors import list_errors
from .show import list_batches, show_batch


def add_batches(group: Groups) -> None:
    """``list``, ``show``, ``errors``, ``redrive`` and ``cancel``."""
    parser = add(group, "list", list_batches, "the newest batches, and how far each is")
    add_task_and_scope(parser)
    parser.add_argument(
        "--state",
        dest="batch_state",
        type=batch_state,
        metavar="STATE",
        help="submitting, running, needs_attention, ...",
    )
    parser.add_argument("--limit", type=count, metavar="N", default=20, help="at most this many batches (20)")
    _add_id(add(group, "show", show_batch, "one batch: its records by outcome, its chunks, its errors"))
    _add_errors(group)
    words = "run again the chunks that need attention, or the records of a category in new chunks"
    parser = add(group, "redrive", redrive_batch, words)
    _add_id(parser)
    _add_category(parser, "the failed records of this category, in new chunks")
    _add_decision(parser)
    parser = add(
        group, "cancel", cancel_batch, "end a batch: chunks that wait are cancelled, chunks that run go on"
    )
    _add_id(parser)
    _add_decision(parser)


def _add_errors(group: Groups) -> None:
    parser = add(
        group, "errors", list_errors, "the failed records of a batch: by error, or each record as CSV"
    )
    _add_id(parser)
    _add_category(parser, "only these")
    parser.add_argument("--signature", type=text, metavar="SIG", help="one kind of error, as 'show' shows it")
    parser.add_argument("--csv", action="store_true", help="each failed record, in bounded memory")
    parser.add_argument("--payload", action="store_true", help="with --csv: also the records themselves")
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="at most this many lines (50)")
    parser.set_defaults(streams=True)


def _add_id(parser: Parser) -> None:
    parser.add_argument("batch", type=batch, metavar="ID", help="as 'list' shows it")


def _add_category(parser: Parser, words: str) -> None:
    parser.add_argument(
        "--category",
        type=category,
        metavar="CATEGORY",
        help=f"fatal, retryable, manual_review or expected: {words}",
    )


def _add_decision(parser: Parser) -> None:
    add_reason(parser)
    add_yes(parser)
