"""Serves the header ``Idempotency-Key`` over HTTP: submit a call or an upload once, ask how far it is.

Problems are ``application/problem+json`` (RFC 9457). The header's value is a structured-field string
or the bare characters of one (RFC 8941, 3.3.3), at most 255 of them.
"""

from __future__ import annotations

from .answers import job_document, problem, user_scope
from .batches import BatchStatusView, batch_document, batch_response
from .submit import asubmit_response, submit_response
from .views import JobCancelView, JobStatusView, JobView

__all__ = [
    "BatchStatusView",
    "JobCancelView",
    "JobStatusView",
    "JobView",
    "asubmit_response",
    "batch_document",
    "batch_response",
    "job_document",
    "problem",
    "submit_response",
    "user_scope",
]
