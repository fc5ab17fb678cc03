"""Who leads: one lease row a duty (the sweeper, beat)."""

from __future__ import annotations

from django.db import models

from .fields import MomentField

#: The duties, as their rows name them.
SWEEPER = "sweeper"
BEAT = "beat"


class Leader(models.Model):
    """A lease on a duty. An economy, never a guarantee: two that both believe they lead do no harm.

    A beat that stands by holds one of a name of its own, for people to see.
    """

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=120)
    token = models.IntegerField()
    since = MomentField()
    expires_at = MomentField()

    class Meta:
        verbose_name = "leader"

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"
