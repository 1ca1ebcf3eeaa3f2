"""Files and what is said of them: reading, checksums, marks, errors, provenance, digests of code.

In come paths and contents of every other package. Out go files that are written whole or not at
all, and errors of one sentence.
"""
