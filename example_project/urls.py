"""Addresses of the example project."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from django.views.generic import RedirectView

from example_project.registrations.webhook import receive

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="study_plans:index")),
    path("admin/", admin.site.urls),
    path("webhooks/<slug:tenant>/registrations/", receive, name="registrations_webhook"),
    path("webhooks/", include("example_project.payments.urls")),
    path("login/", LoginView.as_view(template_name="study_plans/login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("study-plans/", include("example_project.study_plans.urls")),
    path("registrations/", include("example_project.registrations.urls")),
    path("jobs/", include("example_project.study_plans.jobs")),
]
