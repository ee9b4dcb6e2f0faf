"""What does it cost to know a prompt's tokens? `--help` tells what is measured; see bench/tokenize_measure.py.

Python's own module `tokenize` has this file's name, and Python puts the folder of a script before its own library. So
what is imported under that name from a script beside this one gets Python's module instead.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]

if __name__ == "tokenize":
    del sys.modules[__name__]
    __import__(__name__)
elif __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(_FOLDER))
    from bench.tokenize_measure import main

    main()
