"""The project that the documentation's examples are written for; they import it as ``shop``."""
