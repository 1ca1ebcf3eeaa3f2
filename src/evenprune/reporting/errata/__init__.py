"""Errata of the paper, computed: its statements against the numbers that it prints.

``printed.csv`` has the printed tables, ``stated.csv`` what the paper (or another named source)
states outside of them, with its place, and ``sentences.csv`` every number of the running text that
also stands in a table. A check is a function of both; what it says holds only as long as these
numbers are what they are.
"""
