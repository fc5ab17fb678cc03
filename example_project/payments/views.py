"""The endpoint that receives webhooks: it checks, sends one task and answers; it stores nothing itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError as BrokerDown

from .events import MalformedEvent, PaymentEvent, parse_event
from .models import Tenant
from .signatures import HEADER, is_signed
from .tasks import handle_event

if TYPE_CHECKING:
    from django.http import HttpRequest

logger = logging.getLogger(__name__)

# An event is about 300 bytes.
DEFAULT_LIMIT = 64 * 1024
RETRY_AFTER = {"Retry-After": "5"}


@csrf_exempt
@require_POST
def receive(request: HttpRequest, tenant: str) -> JsonResponse:
    """Answer one webhook: 202 when its work is accepted (again), else why not."""
    try:
        sender = Tenant.objects.filter(slug=tenant).first()
        if sender is None:
            return _refused(404, "no such tenant")
        return _receive(request, sender)
    except (InterfaceError, OperationalError, BrokerDown):
        # The provider sends it again later; nothing was accepted.
        logger.exception("The database or the broker did not answer")
        return _refused(503, "try again later", RETRY_AFTER)


def _receive(request: HttpRequest, tenant: Tenant) -> JsonResponse:
    limit = getattr(settings, "WEBHOOK_MAX_BYTES", DEFAULT_LIMIT)
    # Never more than the limit is read, whatever the headers promise.
    try:
        body = request.read(limit + 1)
    except UnreadablePostError:
        return _refused(400, "the body ended early")
    if len(body) > limit:
        return _refused(413, f"the body is larger than {limit} bytes")
    if not is_signed(tenant.secret, body, request.headers.get(HEADER, "")):
        return _refused(401, f"{HEADER} does not fit the body")
    try:
        event = parse_event(body)
    except MalformedEvent as reason:
        return _refused(400, str(reason))
    return _send(tenant, event)


def _send(tenant: Tenant, event: PaymentEvent) -> JsonResponse:
    """Send the event's task. Its key makes it harmless that providers send an event again."""
    kwargs = {
        "tenant": tenant.slug,
        "event_id": event.event_id,
        "payment_id": event.payment_id,
        "order_id": event.order_id,
        "amount": str(event.amount),
        "currency": event.currency,
        "status": event.status,
    }
    call = handle_event.apply_async(kwargs=kwargs, idempotency_key=event.event_id, scope=tenant.slug)
    return JsonResponse({"task": call.id}, status=202)


def _refused(status: int, reason: str, headers: dict[str, str] | None = None) -> JsonResponse:
    return JsonResponse({"error": reason}, status=status, headers=headers)
