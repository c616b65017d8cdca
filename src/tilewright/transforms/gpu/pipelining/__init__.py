"""Software pipelining of loops: latencies, a schedule, and the expansion of the loop by it."""
