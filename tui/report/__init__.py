"""What a project says for people and for programs: lines of text, JSON documents, the Markdown report.

Pure: from a spec and what was measured to text; no files, no clock, no colour.
"""
