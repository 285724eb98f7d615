"""The reference of the command line, made from the command itself."""

from __future__ import annotations

import html
from typing import Any

__all__ = ["command_line", "verbs"]


def verbs() -> dict[str, Any]:
    """Return every command of ``plr`` by name, in the order in which its help lists them."""
    import typer

    from plr.cli import app

    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def command_line() -> str:
    """Return one section for each verb: what it does, an example, its arguments and options."""
    return "\n\n".join(_section(name, command) for name, command in verbs().items())


def _section(name: str, command: Any) -> str:
    parts = [f"## plr {name}", *_description(command.help or "")]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    needed = [f"{one.opts[0]} …" for one in options if one.required]
    usage = " ".join(["plr", name, *map(_argument, arguments), *needed, "[options]"])
    parts.append(f"```text\n{usage}\n```")
    rows = [_row(f"<code>{html.escape(_argument(one))}</code>", one) for one in arguments]
    rows += [_row(_spelling(one), one) for one in options]
    head = "<thead><tr><th>Option</th><th>What it says</th><th>If left out</th></tr></thead>"
    parts.append(f'<div class="options"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>')
    return "\n\n".join(parts)


def _description(text: str) -> list[str]:
    """Return the paragraphs of a help text, its example as code."""
    found = []
    for paragraph in text.split("\n\n"):
        line = " ".join(paragraph.split())
        start, _, commands = line.partition(": ")
        if start in ("Example", "Examples"):
            found.append("```text\n" + commands.replace(", plr ", "\nplr ") + "\n```")
        elif line:
            found.append(line)
    return found


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _spelling(option: Any) -> str:
    return ", ".join(f"<code>{spelled}</code>" for spelled in [*option.opts, *option.secondary_opts])


def _row(spelling: str, parameter: Any) -> str:
    return f"<tr><td>{spelling}</td><td>{html.escape(parameter.help or '')}</td><td>{_default(parameter)}</td></tr>"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    if isinstance(parameter.show_default, str):
        return html.escape(parameter.show_default)
    if parameter.is_flag and not parameter.secondary_opts:
        return "off"
    if parameter.is_flag:
        return f"<code>{(parameter.opts if parameter.default else parameter.secondary_opts)[0]}</code>"
    return "" if parameter.default in (None, "") else f"<code>{html.escape(str(parameter.default))}</code>"
