"""A pruned model against its dense one on the same items: ``evaluate`` and ``compare``.

In come two models, or the records that others' evaluations of them left. Out go a page, a table of
paired differences with verdicts, and an exit status.
"""
