"""Every number of a run with its error and its tests: what is computed, apart from its looks.

In come the records of finished evaluations, checks, measurements and compared masks. Out go
results.csv, significance.csv and the items of the page, one tidy table each.
"""
