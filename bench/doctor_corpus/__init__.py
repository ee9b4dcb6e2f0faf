"""A corpus of requests with what is wrong with them, for judging `warmroute doctor`.

    language -> Voice -> Application -> traffic -> Asked -> a fault -> Asked -> dialect -> Logged

Everything is made up from a seed and from sentences written for it. A faulty family also has its requests as they would
have been without the fault, so that a label can be checked without the doctor: they lose reuse, and without it they
do not.
"""

from bench.doctor_corpus.corpus import FAULTS, SMALL, Corpus, Size, draw
from bench.doctor_corpus.family import Expected, Family

__all__ = ["FAULTS", "SMALL", "Corpus", "Expected", "Family", "Size", "draw"]
