"""The runner: starts measuring children, follows their journals, holds the device's lock.

Asyncio, no torch and no Textual: a screen, a subcommand and a test use the same functions.
"""
