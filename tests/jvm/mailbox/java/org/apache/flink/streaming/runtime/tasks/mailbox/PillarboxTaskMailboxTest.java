package org.apache.flink.streaming.runtime.tasks.mailbox;

import java.lang.reflect.Field;
import org.junit.jupiter.api.BeforeEach;

/** Flink's own tests of its mailbox, over ours. Run by FlinkTaskMailboxSuite. */
class PillarboxTaskMailboxTest extends TaskMailboxImplTest {

    @BeforeEach
    @Override
    void setUp() {
        try {
            Field field = TaskMailboxImplTest.class.getDeclaredField("taskMailbox");
            field.setAccessible(true);
            field.set(this, new PillarboxTaskMailbox());
        } catch (ReflectiveOperationException error) {
            throw new AssertionError("Flink's test no longer keeps its mailbox in 'taskMailbox'", error);
        }
    }
}
