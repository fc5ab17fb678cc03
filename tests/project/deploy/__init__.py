"""The files of ``deploy/``: what they start can be started, and the tools that read them take them."""
