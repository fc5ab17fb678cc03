"""Django looks for the commands of an app in this package."""
