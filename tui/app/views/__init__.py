"""What each screen says: pure functions from a project and a run to lines of text."""
