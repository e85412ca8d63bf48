"""``python -m sublearn.cli``."""

from sublearn.__main__ import main

if __name__ == "__main__":
    main()
