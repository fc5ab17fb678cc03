"""For Django REST framework: what ``http`` does, with its users, negotiation, throttling and exceptions.

``SubmitMixin`` gives a view ``self.submit()``, ``job_urls`` has the views of a job for users of tokens, and
``submits`` describes a method to drf-spectacular where that is installed. ``pip install ".[drf]"``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import ObjectDoesNotExist
from django.db import Error as DatabaseError
from django.http import Http404, HttpResponse
from django.urls import path
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle
from rest_framework.views import APIView

from .http import JobCancelView, JobStatusView, JobView, submit_response

C = TypeVar("C", bound=Callable[..., Any])

#: Answers that say something of a job; any other is an error of the request or the ledger.
_OF_JOBS = frozenset({200, 202, 409})
_PROBLEM = "application/problem+json"
#: Seconds after which a request may be sent again while the ledger does not answer.
_SOON = 5


class SubmissionRefused(exceptions.APIException):
    """A submission that was not accepted: 400, 413, 422 or 503, with ``code`` as in the types of problems."""

    def __init__(self, status: int, kind: str, detail: str, wait: int | None) -> None:
        super().__init__(detail, code=kind)
        self.status_code = status
        #: Seconds for ``Retry-After``, which DRF's own handler sets.
        self.wait = wait


class SubmitRateThrottle(UserRateThrottle):
    """A rate of new work for each user: a request that is repeated under its key does not count.

    ``DEFAULT_THROTTLE_RATES["submit"]``, or a subclass with another ``scope`` or a ``rate``. It counts what
    :meth:`SubmitMixin.submit` has accepted.
    """

    scope = "submit"

    def throttle_success(self) -> bool:
        return True

    def count(self) -> None:
        """Count one accepted job."""
        if getattr(self, "key", None) is not None:
            super().throttle_success()


class _Answering:
    """Part of a view: gives on the answers of ``http`` as DRF's own."""

    request: Any
    finalize_response: Any

    def _answered(self, given: HttpResponse) -> Response:
        content = json.loads(given.content)
        headers = {name: value for name, value in given.items() if name != "Content-Type"}
        if given.status_code not in _OF_JOBS:
            kind = str(content["type"]).rpartition(":")[2]
            wait = headers.get("Retry-After")
            if given.status_code == 401:  # noqa: PLR2004  DRF says which of 401 and 403 it is
                raise exceptions.NotAuthenticated(content["detail"])
            raise SubmissionRefused(
                given.status_code, kind, content["detail"], None if wait is None else int(wait)
            )
        response = Response(content, status=given.status_code, headers=headers)
        if given["Content-Type"] == _PROBLEM and self.request.accepted_renderer.format == "json":
            response.content_type = _PROBLEM
        return response


class SubmitMixin(_Answering):
    """Gives an ``APIView`` or a ``ViewSet`` :meth:`submit`. Put it before the view's class."""

    get_throttles: Any

    def submit(
        self,
        task: Any,
        kwargs: Mapping[str, Any],
        *,
        scope: str | None = None,
        key: object = None,
    ) -> Response:
        """Reserve a call under the request's key, and answer with its job, as ``submit_response`` does.

        The user is the one that DRF has authenticated, by a token as well as by a session. 202, 200 and 409
        are answers, in the format that the client accepts; 400, 413, 422 and 503 are
        :class:`SubmissionRefused`, and no user is ``NotAuthenticated``, which the project's exception handler
        gets. Under ``ATOMIC_REQUESTS`` the call belongs to the request's transaction.
        """
        response = self._answered(submit_response(self.request, task, kwargs, scope=scope, key=key))
        if response.status_code == 202:  # noqa: PLR2004
            for throttle in self.get_throttles():
                if isinstance(throttle, SubmitRateThrottle) and self._is_counted(throttle):
                    throttle.count()
        return response

    async def asubmit(self, task: Any, kwargs: Mapping[str, Any], **named: Any) -> Response:
        """:meth:`submit` for asynchronous views, which DRF itself has not; those of adrf, for example."""
        return await sync_to_async(self.submit)(task, kwargs, **named)

    def _is_counted(self, throttle: SubmitRateThrottle) -> bool:
        """Let a throttle look at the request; as it was allowed before, only its history is read."""
        return bool(throttle.allow_request(self.request, self))


class JobSerializer(serializers.Serializer):
    """A job's document, for descriptions of an API."""

    id = serializers.CharField()
    task = serializers.CharField()
    state = serializers.CharField()
    created = serializers.DateTimeField(allow_null=True)
    started = serializers.DateTimeField(allow_null=True)
    finished = serializers.DateTimeField(allow_null=True)
    attempt = serializers.IntegerField(allow_null=True)
    progress = serializers.JSONField(allow_null=True)
    steps = serializers.ListField(child=serializers.DictField())
    follow_up = serializers.DictField(allow_null=True)
    cancel_url = serializers.CharField(allow_null=True)
    result = serializers.JSONField(required=False)
    error = serializers.CharField(required=False)


class _JobAPIView(_Answering, APIView):
    """A view of a job for whoever DRF has authenticated."""

    serializer_class = JobSerializer  # for descriptions of an API
    #: Whose ``may_see`` says which jobs a request may see.
    job_view: ClassVar[type[JobView]]

    def _of(self, method: str, task_id: str) -> Response:
        try:
            return self._answered(getattr(self.job_view(), method)(self.request, task_id))
        except ObjectDoesNotExist:
            text = "There is no such job, or it is not yours."
            raise Http404(text) from None
        except DatabaseError as error:
            text = "The ledger did not answer. Ask again."
            raise SubmissionRefused(503, "ledger-down", text, _SOON) from error


class JobStatusAPIView(_JobAPIView):
    """``GET``: the document of a job of the user; 404 for another's."""

    job_view = JobStatusView

    def get(self, _request: Any, task_id: str) -> Response:
        """The job."""
        return self._of("get", task_id)


class JobCancelAPIView(_JobAPIView):
    """``POST``: cancel a job of the user; 409 where it has ended, or is ending."""

    job_view = JobCancelView

    def post(self, _request: Any, task_id: str) -> Response:
        """The cancelled job."""
        return self._of("post", task_id)


#: For ``include()``, in the place of ``django_idempotent_tasks.urls``: the same names, for DRF's users.
job_urls = (
    [
        path("<str:task_id>/", JobStatusAPIView.as_view(), name="status"),
        path("<str:task_id>/cancel/", JobCancelAPIView.as_view(), name="cancel"),
    ],
    "idempotent_tasks",
)


class InProgressSerializer(serializers.Serializer):
    """The answer 409, for descriptions of an API."""

    type = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    job = JobSerializer(required=False)


class RefusedSerializer(serializers.Serializer):
    """DRF's usual answer to an error, for descriptions of an API."""

    detail = serializers.CharField()


def submits(*, header: bool = True) -> Callable[[C], C]:
    """Describe a method that answers with ``self.submit()`` to drf-spectacular, where that is installed.

    ``header``: whether the client sends ``Idempotency-Key``; False for a view that gives ``key=``.
    """
    if find_spec("drf_spectacular") is None:
        return lambda method: method
    from drf_spectacular.utils import OpenApiParameter, extend_schema  # noqa: PLC0415  an extra

    place, words = OpenApiParameter.HEADER, "A new value for new work, 1 to 255 characters."
    named = OpenApiParameter("Idempotency-Key", str, place, required=True, description=words)
    responses = {
        202: JobSerializer,
        200: JobSerializer,
        409: InProgressSerializer,
        **dict.fromkeys((400, 413, 422, 503), RefusedSerializer),
    }
    decorate: Callable[[C], C] = extend_schema(parameters=[named] if header else [], responses=responses)
    return decorate
