"""What a run is to do: the keys of a configuration, checked, and the jobs that follow from them.

In come the YAML files of a user. Out go a ``Config``, the paths of all results, the options of each
job with what its result depends on, and run_sheet.json.
"""
