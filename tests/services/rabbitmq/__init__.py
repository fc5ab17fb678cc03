"""RabbitMQ in depth: queues of every type, what it refuses, limits and closes."""
