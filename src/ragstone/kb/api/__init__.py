"""The HTTP API: thin routes over `ragstone.kb`, one file a resource."""
