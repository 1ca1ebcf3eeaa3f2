"""One module a figure, of the figure's name: ``draw(run, slug)`` returns it."""
