"""The command ``ellwand``, and ``python -m ellwand``: the same Rust, with the implementations that Python registers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

__all__ = ["main", "script"]

WORKER = "worker"
#: Followed by the file of a call; only `ellwand.bench` and `ellwand.compare` use it.
CALL = "--ellwand-call"

LOAD_HELP = """
From Python:
      --load <FILE>   Run a Python file that registers workloads or implementations (repeatable)
"""


def launch(files: Sequence[str], call: str | None) -> list[str]:
    """The command that starts a worker with the same files and functions as this process."""
    command = [sys.executable]
    if sys.version_info >= (3, 11):
        # The current folder must not hide a package from workers.
        command.append("-P")
    command += ["-m", "ellwand"]
    for file in files:
        command += ["--load", os.path.abspath(file)]
    if call is not None:
        command += [CALL, call]
    return [*command, WORKER]


@contextlib.contextmanager
def _quiet(is_command: bool) -> Iterator[None]:
    """Keeps stdout for the verdict: output of a re-run script goes to stderr. A worker has redirected its streams already."""
    if not is_command:
        yield
        return
    sys.stdout.flush()
    verdict = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(verdict, 1)
        os.close(verdict)
        # Threads of the script may print later.
        sys.stdout = sys.stderr


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    working = args[-1:] == [WORKER]
    if args[:1] == [CALL] and not working:
        from . import _parent

        with _parent.followed(args[1]):
            return _run(args, working)
    return _run(args, working)


def _run(args: list[str], working: bool) -> int:
    if working:
        from . import _threads

        _threads.tame()
    from . import _native

    if working:
        _native.take_streams()
    from . import _load, _registry
    from ._errors import EllwandError

    line = ["ellwand", *args]
    try:
        call = None
        if args[:1] == [CALL]:
            call, args = args[1], args[2:]
            from . import _call

            with _quiet(not working):
                _call.register_file(call)
        files, args = _load.take(args)
        if call is None:
            from . import _frameworks

            _frameworks.register(None if working or args[:1] == ["list"] else args)
        for file in files:
            _load.load(file)
        workloads, implementations = _registry.rows()
    except EllwandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    if working:
        return _native.worker(workloads, implementations)
    code = _native.run(["ellwand", *args], line, workloads, implementations, launch(files, call))
    if code == 0 and args and args[-1] in ("--help", "-h", "help"):
        print(LOAD_HELP, end="")
    return code


def script() -> None:
    """The entry point of the command."""
    code = main()
    if sys.argv[-1:] == [WORKER]:
        # The worker has sent its answers. Frameworks take long to unload, and some crash while they do.
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    script()
