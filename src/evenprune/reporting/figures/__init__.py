"""One module a figure, of the figure's name: ``draw(spec, results, slug)`` returns it."""
