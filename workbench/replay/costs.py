"""What a step costs besides computing, as a replay counts it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from miniapps.json_input import parsed_object
from miniapps.parameters import InputError, contents, require
from miniapps.workbench.run.shapes import AMOUNT, misfit

MOST = 1 << 20  # bytes of a file of costs


@dataclass(frozen=True)
class Costs:
    """Seconds that a PE spends besides computing; None: taken from the recorded run.

    ``message_s``, ``byte_s``: per message and byte between two PEs, for each of both;
    ``balancing_s``: per load-balancing step, in which all PEs stand still; ``migrated_byte_s``: per
    byte of the blocks that migrate in it, on the PE that sends or receives most; ``step_s``: per
    step, whatever the blocks compute.
    """

    message_s: float = 0.0
    byte_s: float = 0.0
    balancing_s: float | None = None
    migrated_byte_s: float | None = None
    step_s: float | None = None

    @classmethod
    def read(cls, path: Path) -> Costs:
        """Costs from a JSON object with any of the keys. Raises InputError."""
        text = contents("--costs", path, MOST)
        try:
            given = parsed_object(text)
        except ValueError as error:
            raise InputError("--costs", path, str(error)) from None
        known = [field.name for field in fields(cls)]
        require(given.keys() <= {*known}, "--costs", path, f"may have {', '.join(known)} only")
        wrong = misfit(given, {f"{name}?": AMOUNT for name in known}, "it")
        require(wrong is None, "--costs", path, str(wrong))
        return cls(**given)

    def known(self, **found: float) -> Costs:
        """These costs; those that are None are as ``found``."""
        return replace(self, **{k: v for k, v in found.items() if getattr(self, k) is None})
