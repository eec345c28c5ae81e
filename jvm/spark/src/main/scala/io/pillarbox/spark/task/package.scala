package io.pillarbox.spark

/**
 * The parts of a task that every operator needs: mailbox, thread and end, and how the driver learns of calls
 * that failed. Knows no operator, nor Python.
 */
package object task
