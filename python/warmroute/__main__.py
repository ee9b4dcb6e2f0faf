"""`python -m warmroute` is the command `warmroute`."""

import sys

from warmroute.cli.main import main

sys.exit(main())
