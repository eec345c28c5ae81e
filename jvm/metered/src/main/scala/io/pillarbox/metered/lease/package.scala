package io.pillarbox.metered

/**
 * Limits of calls over many processes: one lends permits and tokens, others use them. Nothing here knows how
 * they communicate.
 */
package object lease
