"""Readers of the canonical data files: one typed item a row, broken rows named by line.

Every data set lies in one folder, ``data/<name>/``, with the files that its reader names, plain
or gzipped. Mirror, hub downloads and the invented world use the same files, so these readers are
the only ones. Nothing is imported here: a step's code is what it imports, and a changed reader
reruns only what reads data sets of its kind.
"""
