"""Serves the header ``Idempotency-Key`` over HTTP: submit a call once, ask about its job, cancel it.

Problems are ``application/problem+json`` (RFC 9457). The header's value is a structured-field string
or the bare characters of one (RFC 8941, 3.3.3), at most 255 of them.
"""

from __future__ import annotations

from .answers import job_document, problem, user_scope
from .submit import asubmit_response, submit_response
from .views import JobCancelView, JobStatusView, JobView

__all__ = [
    "JobCancelView",
    "JobStatusView",
    "JobView",
    "asubmit_response",
    "job_document",
    "problem",
    "submit_response",
    "user_scope",
]
