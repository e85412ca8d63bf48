"""``python -m sublearn``."""

from sublearn.cli import main

if __name__ == "__main__":
    main()
