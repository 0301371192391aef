"""The ``%dyno`` magics: rendering of the compiler's reports, the same in every kernel.

``attach(shell)`` registers them in an IPython shell. ``inspect_function`` gives the same results to the Python API.
"""


def attach(shell):
    """Registers ``%dyno``, ``%%dyno`` and their completion; a second call replaces the first."""
    from dyno.magics import completion, help, inspection, magic

    def dyno(line, cell=None):
        if cell is None:
            return magic.line_magic(shell, line)
        return magic.cell_magic(shell, line, cell)

    dyno.__doc__ = help.docstring()
    shell.register_magic_function(dyno, magic_kind="line_cell", magic_name="dyno")
    for name in ("%dyno", "%%dyno"):
        shell.set_hook("complete_command", completion.hook, str_key=name)
    inspection.attach(shell)


def detach(shell):
    """Removes what ``attach`` registered."""
    from dyno.magics import inspection

    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("dyno", None)
    inspection.detach(shell)


def inspect_function(kind, function):
    """The result of ``dyno.explain``, ``dyno.graph`` and ``dyno.guards``: as the magic's, not shown."""
    import importlib

    from dyno.magics import target
    from dyno.magics.request import Request
    from dyno.magics.result import running_shell

    if target.python_code(function) is None:
        raise TypeError(f"dyno.{kind} takes a function or module with Python code, not {type(function).__name__}")
    plain = target.plain(function)
    name = getattr(plain, "__name__", type(plain).__name__)
    request = Request(running_shell(), kind, {}, (target.Target(name, function),))
    return importlib.import_module(f"dyno.magics.{kind}").run(request)
