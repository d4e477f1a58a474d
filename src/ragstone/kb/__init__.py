"""The application: knowledge bases over the library. The library never imports it."""
