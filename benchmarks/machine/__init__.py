"""The machine that is measured on: its servers, processor time, memory and settings."""
