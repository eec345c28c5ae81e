package io.pillarbox.spark

/** The parts of a task that every operator needs: mailbox, thread and end. Knows no operator, nor Python. */
package object task
