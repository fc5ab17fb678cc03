"""The endpoint that receives webhooks: it checks, accepts the event and its task in one, and answers."""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.http import JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from django_idempotent_tasks import DuplicateTask, KeyReused

from .events import MalformedEvent, PaymentEvent, parse_event
from .models import ReceivedEvent, Tenant
from .signatures import HEADER, is_signed
from .tasks import handle_event

if TYPE_CHECKING:
    from django.http import HttpRequest

logger = logging.getLogger(__name__)

# An event is about 300 bytes.
DEFAULT_LIMIT = 64 * 1024
RETRY_AFTER = {"Retry-After": "5"}
# Providers repeat an event for some days; what is signed with a later time than now is no accident of clocks.
DEFAULT_AGE = 3 * 24 * 60 * 60
AHEAD = 5 * 60


@csrf_exempt
@require_POST
def receive(request: HttpRequest, tenant: str) -> JsonResponse:
    """Answer one webhook: 202 when its work is accepted (again), else why not."""
    return answer(request, tenant, handle_event)


def answer(request: HttpRequest, tenant: str, task: Any) -> JsonResponse:
    """Check a webhook, and accept it together with ``task`` for it, which takes the event's fields."""
    try:
        return _receive(request, Tenant.objects.filter(slug=tenant).first(), task)
    except (InterfaceError, OperationalError):
        # The provider sends it again later; nothing was accepted.
        logger.exception("The database did not answer")
        return _refused(503, "try again later", RETRY_AFTER)


def _receive(request: HttpRequest, tenant: Tenant | None, task: Any) -> JsonResponse:
    """One answer for an unknown tenant and a wrong signature: nobody learns here which tenants there are."""
    limit = getattr(settings, "WEBHOOK_MAX_BYTES", DEFAULT_LIMIT)
    # Never more than the limit is read, whatever the headers promise.
    try:
        body = request.read(limit + 1)
    except UnreadablePostError:
        return _refused(400, "the body ended early")
    if len(body) > limit:
        return _refused(413, f"the body is larger than {limit} bytes")
    secret = secrets.token_hex(32) if tenant is None else tenant.secret
    if not is_signed(secret, body, request.headers.get(HEADER, "")) or tenant is None:
        return _refused(401, f"{HEADER} does not fit the body")
    try:
        event = parse_event(body)
    except MalformedEvent as reason:
        return _refused(400, str(reason))
    age = time.time() - event.created
    if not -AHEAD <= age <= getattr(settings, "WEBHOOK_MAX_AGE", DEFAULT_AGE):
        return _refused(400, "created is too long ago, or in the future: a recorded request may be replayed")
    return _send(tenant, event, task)


def _send(tenant: Tenant, event: PaymentEvent, task: Any) -> JsonResponse:
    """Accept the event and its task. Its key makes it harmless that providers send an event again.

    Once this has committed the work is done, also if the broker is down now or loses the message.
    """
    kwargs = {
        "tenant": tenant.slug,
        "event_id": event.event_id,
        "payment_id": event.payment_id,
        "order_id": event.order_id,
        "amount": str(event.amount),
        "currency": event.currency,
        "status": event.status,
    }
    try:
        with transaction.atomic():
            call = task.apply_async(kwargs=kwargs, idempotency_key=event.event_id, scope=tenant.slug)
            facts = {"payment_id": event.payment_id, "task_id": call.id}
            row, is_new = ReceivedEvent.objects.get_or_create(
                tenant=tenant, event_id=event.event_id, defaults=facts
            )
            if not is_new and not call.duplicate:
                # Accepted so long ago that its key is pruned: its work must not be done again.
                transaction.set_rollback(True)
    except KeyReused:
        return _refused(422, "this event was accepted with another content")
    except DuplicateTask:
        return _refused(409, "this event is being accepted by another request", RETRY_AFTER)
    return JsonResponse({"task": row.task_id}, status=202)


def _refused(status: int, reason: str, headers: dict[str, str] | None = None) -> JsonResponse:
    return JsonResponse({"error": reason}, status=status, headers=headers)
