"""The table of leaders: one lease row for each duty (the sweeper, beat)."""

from __future__ import annotations

from django.db import models

from .fields import MomentField

#: The duties, as their rows name them.
SWEEPER = "sweeper"
BEAT = "beat"
#: No duty: the row in which the sweeper that leads notes when it has ended a sweep without an error.
SWEPT = "swept"


class Leader(models.Model):
    """A lease on a duty. It saves work and guarantees nothing: two processes that both lead do no harm.

    A beat that stands by holds a lease under a name of its own, for people to see.
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
