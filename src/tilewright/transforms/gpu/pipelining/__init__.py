"""Software pipelining of loops: latencies, a schedule, and the loop that follows it."""
