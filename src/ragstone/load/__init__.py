"""Load: from a source (path or address) to a stream of blobs."""
