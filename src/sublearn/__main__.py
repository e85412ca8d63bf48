"""``python -m sublearn``, and the command ``sublearn``."""

from __future__ import annotations

from sublearn import _interrupts


def main() -> None:
    """Run the command line; Ctrl-C ends it with 130, also while it is still being loaded."""
    with _interrupts.ending(process=True):
        from sublearn.cli import main as run

        run()


if __name__ == "__main__":
    main()
