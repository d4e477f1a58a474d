"""Parse: from bytes to a document with its text, pages and headings.

`router.parse` is the whole step as a plain function; `sandbox.ParserPool` runs it in
worker processes that a bad file can crash without harm.
"""
