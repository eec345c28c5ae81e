package io.pillarbox.spark

/** Functions of the JVM for tests: what a user would put in a jar of his own. */
package object functions
