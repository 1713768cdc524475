"""The measuring side: runs in the interpreter that trains, needs torch and the standard library only.

Everything here imports relatively within the package and is written for Python 3.9, because it is loaded by
path, under a private name, by an interpreter that has nothing of peakmark installed (see ``boot.py``).
``protocol`` is the one module that the other side of the journal imports too; it imports no torch.
"""
