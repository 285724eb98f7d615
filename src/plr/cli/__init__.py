"""The ``plr`` command: one verb per job, one file per verb.

Results go to stdout, progress and messages to stderr. A user's mistake ends with one line and exit code 2; anything
else keeps its traceback, because then the mistake is ours.

A verb's file imports what it works with inside its functions: all of them are imported for ``plr --help``, which
shows the first lines of their docstrings and should not wait for anything else.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from plr.cli.benchmark import benchmark_command
from plr.cli.check import check_command
from plr.cli.common import spell_parameter
from plr.cli.compare import compare_command
from plr.cli.datasets import datasets_command
from plr.cli.evaluate import evaluate_command
from plr.cli.fit import fit_command
from plr.cli.generate import generate_command
from plr.cli.identify import identify_command
from plr.cli.predict import predict_command
from plr.cli.report import report_command
from plr.cli.review import review_command
from plr.errors import PlrError

__all__ = ["VERBS", "app", "command", "main"]

VERBS: dict[str, Callable[..., None]] = {
    "check": check_command,
    "compare": compare_command,
    "fit": fit_command,
    "predict": predict_command,
    "identify": identify_command,
    "review": review_command,
    "evaluate": evaluate_command,
    "report": report_command,
    "generate": generate_command,
    "datasets": datasets_command,
    "benchmark": benchmark_command,
}
"""What there is to say after ``plr``, in the order of the help."""

_CANNOT_WRITE = (errno.ENOSPC, errno.EIO, errno.EDQUOT)

app = typer.Typer(
    name="plr",
    help="Regression from candidate sets: each row carries several possible labels, one of them true.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _verb(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Let errors name options in place of parameters, and a command that is stopped end quietly, unlike Typer."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            typer.echo("Stopped.", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever reads the rows has read enough, as head does.
            _drop_output()
            raise typer.Exit(0) from None
        except PlrError as error:
            verbs: Any = typer.main.get_command(app)
            spell_parameter(error, verbs.commands[name].params)
            raise

    return run


for _name, _command in VERBS.items():
    app.command(_name)(_verb(_name, _command))


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
        code = app(prog_name="plr", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _end("Stopped.", 130)
    except BrokenPipeError:
        _drop_output()
        code = 0
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        # By name, because Typer brings a click of its own.
        if "Abort" in kinds:
            _end("Stopped.", 130)
        if "NoArgsIsHelpError" in kinds:
            _end(str(error), 2)
        if "ClickException" in kinds:
            _end(f"plr: {_usage(error)}", 2)
        if isinstance(error, OSError) and error.filename is None and error.errno in _CANNOT_WRITE:
            _drop_output()
            _end(f"plr: Results cannot be written: {os.strerror(error.errno)}.", 2)
        if not isinstance(error, PlrError):
            raise
        _end(f"plr: {_one_line(error)}", 2)
    sys.exit(code if isinstance(code, int) else 0)


def command() -> None:
    """Run the command line and leave at once, with what was written flushed.

    Threads of the libraries that read tables may still be winding down. Torn down with the interpreter, they now and
    then end the process with an abort in place of its own exit code.
    """
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def _drop_output() -> None:
    """Let nothing more be written to stdout, so that Python does not try to at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any) -> str:
    """Return what is wrong with what was typed, and where to read what may be typed."""
    path = getattr(getattr(error, "ctx", None), "command_path", "plr")
    text = _one_line(error.format_message())
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See {path} --help."


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _end(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
