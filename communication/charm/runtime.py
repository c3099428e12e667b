"""Starts the Charm4Py runtime, and lets each PE run the session in a coroutine."""

from __future__ import annotations

from collections.abc import Callable

from charm4py import Group, charm, coro

from miniapps.communication.charm.chare import PE
from miniapps.communication.charm.world import Ranks
from miniapps.communication.session import World
from miniapps.communication.settings import Settings
from miniapps.drivers.charm import output
from miniapps.drivers.charm.pe import fail
from miniapps.drivers.descriptor import Options

__all__ = ["fail", "run"]


def run(settings: Settings, own: Options, session: Callable[[World], int]) -> int:
    """Call ``session`` on each PE; ends the process, with PE 0's status."""

    class Rank(PE):
        """The chare of this process; its class is made here so that it knows the session."""

        @coro
        def take_part(self) -> None:
            """Run the session, which handles every error."""
            output.restore()
            status = session(Ranks(self, settings))
            if charm.myPe() == 0:
                charm.exit(status)

    def main(_: list[str]) -> None:
        Group(Rank).take_part()

    output.keep()
    charm.start(main, classes=[Rank])
    return 0
