"""``python -m lanewise``."""

from lanewise.cli import main

main()
