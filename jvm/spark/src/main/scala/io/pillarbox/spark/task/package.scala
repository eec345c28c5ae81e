package io.pillarbox.spark

/** What every operator needs in a task: a mailbox, its thread, its end. Knows no operator, nor Python. */
package object task
