package io.pillarbox.metered

/** Amounts that calls report, such as tokens, and what a call was when its rows are known. */
package object usage
