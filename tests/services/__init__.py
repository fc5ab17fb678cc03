"""The promises on services that the tests do not start: MariaDB or MySQL, and RabbitMQ."""
