package io.pillarbox.state

/** Moves one key's state of several namespaces into one. */
private[state] object NamespaceMerge {

  /**
   * @param take reads and clears the current namespace; null if it holds nothing
   * @param put merges what was taken, never empty, into the current namespace
   */
  def apply[T](backend: KeyedStateBackend[_], target: Namespace, sources: Iterable[Namespace])(
      take: () => T,
      put: Seq[T] => Unit
  ): Unit = {
    val before = backend.namespace
    try {
      val taken = sources.toSeq.distinct.filter(_ != target).flatMap { source =>
        backend.setCurrentNamespace(source)
        Option(take())
      }
      if (taken.nonEmpty) {
        backend.setCurrentNamespace(target)
        put(taken)
      }
    } finally backend.setCurrentNamespace(before)
  }
}
