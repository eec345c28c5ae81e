"""The names of a checkpoint's contents beside a function's states, as in the JVM."""

RESERVED = "pillarbox "
TIMERS = RESERVED + "timers"
WAITING_ROWS = RESERVED + "time-sorted rows"
