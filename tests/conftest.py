"""What holds for all tests."""

import signal

# A shell starts what it runs in the background with interrupts ignored, and children inherit that: those of tests,
# which are to end at one, would run on.
signal.signal(signal.SIGINT, signal.default_int_handler)
