"""Echo: messages that check themselves, to see what a driver costs."""

from miniapps.echo.block import EchoBlock as Block
from miniapps.echo.loads import loads
from miniapps.echo.problem import EchoProblem as Problem
from miniapps.echo.problem import reference, validate

__all__ = ["Block", "Problem", "loads", "reference", "validate"]
