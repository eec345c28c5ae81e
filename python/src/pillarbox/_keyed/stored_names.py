"""The names of what a checkpoint has beside a function's states; the JVM side knows the same."""

RESERVED = "pillarbox "
TIMERS = RESERVED + "timers"
WAITING_ROWS = RESERVED + "time-sorted rows"
