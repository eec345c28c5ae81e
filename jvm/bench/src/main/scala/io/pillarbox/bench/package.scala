package io.pillarbox

/**
 * JMH benchmarks that run our classes beside Flink's own in one run.
 *
 * Each subject is a small interface with a provider for either side, chosen by the parameter `of`. What may
 * not live here: anything that the library needs. Run with
 * {{{
 * tools/sbt "bench/Jmh/run -jvmArgsAppend -Djmh.ignoreLock=true -prof io.pillarbox.bench.CpuTimeProfiler
 *            -f 3 -wi 5 -w 1 -i 5 -r 1 io.pillarbox.bench.Mailbox.*"
 * }}}
 */
package object bench
