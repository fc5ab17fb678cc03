"""Read-only lists of payments, charges and notifications; tenants without their secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from .models import Charge, Notification, Payment, ReceivedEvent, Tenant, Total

if TYPE_CHECKING:
    from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Shows rows; money is moved by tasks, not by hand."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        return False


@admin.register(Tenant)
class TenantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Tenants by name. The secret is not editable, so no page shows it."""

    list_display = ("name", "slug")
    search_fields = ("name", "slug")


@admin.register(ReceivedEvent)
class ReceivedEventAdmin(ReadOnlyAdmin):
    """What was accepted, and the call that has its work."""

    list_display = ("event_id", "tenant", "payment_id", "task_id", "received_at")
    search_fields = ("event_id", "payment_id", "task_id")


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    """The latest known state of payments."""

    list_display = ("payment_id", "tenant", "order_id", "amount", "currency", "status", "updated_at")
    list_filter = ("status", "tenant")
    search_fields = ("payment_id", "order_id")


@admin.register(Charge)
class ChargeAdmin(ReadOnlyAdmin):
    """Money that was moved, with the attempt that booked it."""

    list_display = (
        "payment_id",
        "tenant",
        "amount",
        "currency",
        "gateway_reference",
        "attempt",
        "created_at",
    )
    list_filter = ("tenant",)
    search_fields = ("payment_id", "event_id", "gateway_reference")


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    """Messages to tenants."""

    list_display = ("text", "tenant", "payment_id", "created_at")
    list_filter = ("tenant",)


@admin.register(Total)
class TotalAdmin(ReadOnlyAdmin):
    """What the charges of tenants come to."""

    list_display = ("tenant", "currency", "charges", "amount", "updated_at")
    list_filter = ("tenant",)
