"""`durable-graph`, or `python -m durable_graph`: what can be done from a shell.

A subcommand is a module (or package) of this folder with

    SUMMARY                     one line for the help
    add_arguments(parser)       what it takes; its docstring is the subcommand's description
    run(arguments) -> int       the exit code: 0 done, 1 done but something is left to say, 2 wrong use

and a line in COMMANDS. All of them are imported for the help, so what needs a graph or a database imports it in `run`.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "Subcommand", "main"]

COMMANDS: Final = {
    "doctor": "durable_graph.cli.doctor",
    "imports": "durable_graph.cli.imports",
    "runs": "durable_graph.cli.runs",
    "worker": "durable_graph.cli.worker",
}


class Subcommand(Protocol):
    """What a module of COMMANDS offers."""

    SUMMARY: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare what the subcommand takes."""
        ...

    def run(self, arguments: Namespace) -> int:
        """Do it; the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand that `argv` names (default: the process's arguments); its exit code.

    Without a subcommand the help is printed. Wrong arguments end in SystemExit(2), `--help` in SystemExit(0), as
    argparse has it.
    """
    parser = ArgumentParser(prog=_name(), description="Durable execution of agent graphs.")
    subparsers = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND")
    for name, module in COMMANDS.items():
        command = cast("Subcommand", import_module(module))
        subparser = subparsers.add_parser(
            name,
            help=command.SUMMARY,
            description=cleandoc(command.add_arguments.__doc__ or command.SUMMARY),
            formatter_class=RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    arguments = parser.parse_args(argv)
    if "run" not in arguments:
        parser.print_help()
        return 0
    return _quietly(arguments)


def _name() -> str:
    """How we were called."""
    called = Path(sys.argv[0]).name
    return called if called == "durable-graph" else "python -m durable_graph"


def _quietly(arguments: Namespace) -> int:
    """Run it; a reader of the output that went away (`... | head`) is no error worth a traceback."""
    try:
        code: int = arguments.run(arguments)
        _ = sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at exit
        return 1
    return code
