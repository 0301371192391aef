"""``python -m dyno.kernel -f FILE``: the kernel without the launcher, in the Python that runs this."""

from . import main

raise SystemExit(main())
