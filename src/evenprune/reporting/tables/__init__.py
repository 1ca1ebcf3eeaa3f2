"""One module a table, of the table's name: ``build(run, slug)`` returns it as data."""
