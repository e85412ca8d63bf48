"""``python -m sublearn``, and the command ``sublearn``."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; Ctrl-C ends it with 130, also while it is still being loaded."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until it is written down, which begins two lines below, it ends the process without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sublearn import _interrupts

    with _interrupts.ending(process=True):
        from sublearn.cli import main as run

        run()


if __name__ == "__main__":
    main()
