package io.pillarbox.state

/**
 * Values to bytes and back: the SPI, and the serializers of the types that need no thought.
 *
 * Nothing here knows of a backend. Bytes written here end in snapshots, so a format once released stays readable.
 */
package object serialization
