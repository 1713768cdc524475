"""What is true by arithmetic: parameter formulas, ledger, verdict, batch line, throughput, time.

Pure: no torch, no Textual, no files, no clock.
"""
