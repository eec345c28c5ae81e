"""What runs inside the Python worker of a Spark executor, for engine="jvm".

The JVM owns order, capacity, deadlines and retries; the worker runs calls and reports how each
ended. Frames come in through ``channel`` and ``frames``, ``session`` turns them to calls of the
``runner``, and answers go back as one frame a turn of the event loop. Nothing here may be imported
by the driver's API except ``runner``, ``resources`` and ``watchdog``, which the Python engine
shares; nothing here may use py4j.
"""
