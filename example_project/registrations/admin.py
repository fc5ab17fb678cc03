"""Events with their tickets to edit; uploads, registrations and badges to look at."""

from __future__ import annotations

from django.contrib import admin

from example_project.payments.admin import ReadOnlyAdmin

from .models import Badge, Event, Registration, Ticket, Upload


class TicketInline(admin.TabularInline):  # type: ignore[type-arg]
    """The tickets of an event."""

    model = Ticket
    extra = 1


@admin.register(Event)
class EventAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """An event, its organisers and its tickets."""

    list_display = ("title", "tenant")
    filter_horizontal = ("organisers",)
    inlines = (TicketInline,)


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    """Files that were taken in."""

    list_display = ("name", "event", "rows", "by", "sent_at", "batch")
    list_filter = ("event",)


@admin.register(Registration)
class RegistrationAdmin(ReadOnlyAdmin):
    """Attendees."""

    list_display = ("name", "email", "event", "ticket", "quantity", "reference", "paid_at")
    list_filter = ("event",)
    list_select_related = ("event", "ticket")
    search_fields = ("name", "email", "reference")


@admin.register(Badge)
class BadgeAdmin(ReadOnlyAdmin):
    """Badges that came out of the printer."""

    list_display = ("sheet", "registration", "attempt", "printed_at")
    list_select_related = ("registration",)
