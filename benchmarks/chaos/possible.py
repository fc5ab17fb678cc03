"""Says which strikes a run leaves out: by choice, or since this machine does not allow them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from benchmarks.chaos.links import Links
from benchmarks.chaos.plan import (
    OF_A_BROKERS_DISK,
    OF_A_CLOCK,
    OF_A_DISK,
    OF_A_HOST,
    Setting,
    Strike,
    strikes_of,
)
from benchmarks.chaos.servers import OwnServers
from benchmarks.machine.clock import Clocks

MOUNT = "no file system can be mounted here, as root can"
LINK = "no host can have a network of its own here"
RULE = "no link can be narrowed here"
COMPILER = "no C compiler (cc) is found to make clocks that can be set"


def impossible(
    setting: Setting, servers: OwnServers, clocks: Clocks | None, links: Links
) -> dict[Strike, str]:
    """The strikes of a setting that this machine does not allow, with the reason."""
    lacking = dict(_lacking(setting, servers, clocks, links))
    return {strike: lacking[strike] for strike in strikes_of(setting) if strike in lacking}


def _lacking(
    setting: Setting, servers: OwnServers, clocks: Clocks | None, links: Links
) -> Iterator[tuple[Strike, str]]:
    if links.stiff:
        yield Strike.HOST_NARROWED, f"{RULE} ({links.stiff})"
    if links.why:
        yield from ((strike, f"{LINK} ({links.why})") for strike in OF_A_HOST)
    if clocks is None:
        yield from ((strike, COMPILER) for strike in OF_A_CLOCK)
    if servers.database_disk is None:
        yield from ((strike, MOUNT) for strike in OF_A_DISK)
    if servers.broker_disk is None and setting.broker == "redis":
        yield from ((strike, MOUNT) for strike in OF_A_BROKERS_DISK)


def told(left_out: dict[Strike, str]) -> Iterator[str]:
    """A sentence for each reason."""
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(strike.value for strike, why in left_out.items() if why == reason)
        yield f"left out, since {reason}: {names}"


def unchosen(names: Sequence[str]) -> Collection[Strike]:
    """The strikes that are not among those that were chosen; none where nobody has chosen."""
    chosen = set(_named(names))
    return [strike for strike in Strike if chosen and strike not in chosen]


def _named(names: Iterable[str]) -> Iterator[Strike]:
    for name in names:
        try:
            yield Strike(name)
        except ValueError:
            msg = f"There is no fault {name!r}; there are {', '.join(Strike)}"
            raise LookupError(msg) from None
