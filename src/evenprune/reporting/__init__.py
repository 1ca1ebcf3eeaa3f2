"""Tables, figures, a page and a PDF of a run: how its numbers are shown, in words and signs.

In come results.csv, significance.csv and the run sheet, and the records of items where an interval
is of two numbers. Out go a table in four forms, a figure in three, and the documents of both.
"""
