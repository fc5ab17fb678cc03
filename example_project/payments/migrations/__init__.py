"""The payments app's tables."""
