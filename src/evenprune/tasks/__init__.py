"""What benchmarks ask and how their answers count: a module a task.

In come a language model and the items of a data set. Out go a record an item, and the metrics of
all records.
"""
