"""Builders of tables, called as ``tables.yaml`` says: ``build(run, slug)`` returns a table."""
