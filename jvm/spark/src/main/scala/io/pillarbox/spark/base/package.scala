package io.pillarbox.spark

/**
 * What any part may use, on the driver and in tasks: the settings, and how errors read. Uses nothing of the
 * project.
 */
package object base
