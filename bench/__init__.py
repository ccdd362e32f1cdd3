"""Measures, each a subcommand of `python -m bench`; answers are checked before anything is timed."""
