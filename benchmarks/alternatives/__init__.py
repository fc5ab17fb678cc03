"""What a team would pick instead: the same job sent and run by other queues, where they are installed."""
