"""Numbers of records with their errors, paired tests of two models, and the verdicts on them.

In come the records of evaluations, an item each. Out go values with standard errors, intervals,
p-values after correction, and words such as "fairer".
"""
