"""The steps of a run: each turns the outcomes of one or more children into one saved result."""
