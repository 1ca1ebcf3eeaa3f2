"""Single items of a run's evaluations: their texts, answers and the form that the page reads."""
