"""The CPU driver: machine code into memory, a thread pool, and launches that cost a fraction of a microsecond."""
