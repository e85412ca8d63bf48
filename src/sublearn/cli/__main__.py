"""``python -m sublearn.cli``."""

from sublearn.cli import main

main()
