"""The parts of the protocol, so that a test can take one away."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """The protocol. Each flag that is off is one of its parts taken away."""

    #: The row keeps the message, so that the sweeper can send it again.
    stored: bool = True
    sweeper: bool = True
    #: A copy that meets a living lease is sent again later instead of being dropped.
    reschedules: bool = True
    #: A settlement names the claim's token and owner.
    fenced: bool = True
    #: A takeover gets a token of its own.
    takeover_counts: bool = True
    #: A claim of a finished key tests state and token beside the time, and renews the time.
    reclaim_tests_state: bool = True
    #: A heartbeat names its claim: who was overtaken does not keep the next owner's lease alive.
    heartbeat_names_its_claim: bool = True
    #: RETRY is written before its message is published.
    retry_writes_first: bool = True
    #: The calls that a claim of a finished key replaces are remembered.
    remembers_accepted: bool = True
    remembers_runner: bool = True
    #: A reservation is published when its transaction has been committed, and not before.
    publishes_after_commit: bool = True
    #: A reserved message is claimed by the call that has the key.
    reserved_names_its_call: bool = True
    #: A cancel leaves alone what has ended.
    cancel_tests_state: bool = True
