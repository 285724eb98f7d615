"""The ``plr`` command: one verb per job, one file per verb.

Results go to stdout, progress and messages to stderr. A user's mistake ends with one line and exit code 2; anything
else keeps its traceback, because then the mistake is ours.

A verb's file imports what it works with inside its functions: all of them are imported for ``plr --help``, which
shows the first lines of their docstrings and should not wait for anything else.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from plr.cli.benchmark import benchmark_command
from plr.cli.check import check_command
from plr.cli.datasets import datasets_command
from plr.cli.evaluate import evaluate_command
from plr.cli.fit import fit_command
from plr.cli.generate import generate_command
from plr.cli.identify import identify_command
from plr.cli.predict import predict_command
from plr.cli.report import report_command

__all__ = ["VERBS", "app", "main"]

VERBS: dict[str, Callable[..., None]] = {
    "check": check_command,
    "fit": fit_command,
    "predict": predict_command,
    "identify": identify_command,
    "evaluate": evaluate_command,
    "report": report_command,
    "generate": generate_command,
    "datasets": datasets_command,
    "benchmark": benchmark_command,
}
"""What there is to say after ``plr``, in the order of the help."""

app = typer.Typer(
    name="plr",
    help="Regression from candidate sets: each row carries several possible labels, one of them true.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Let Ctrl-C end a command with one line, whatever it is at; Typer's way is to say nothing."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            typer.echo("Stopped.", err=True)
            raise typer.Exit(130) from None

    return run


for _name, _command in VERBS.items():
    app.command(_name)(_stoppable(_command))


def _show_version(wanted: bool) -> None:
    if wanted:
        from plr import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    except Exception as error:
        from plr.errors import PlrError

        if not isinstance(error, PlrError):
            raise
        sys.stderr.write(f"plr: {' '.join(str(error).split())}\n")
        sys.exit(2)
