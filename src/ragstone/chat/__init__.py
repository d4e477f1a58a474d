"""Chat models: one adapter a protocol."""
