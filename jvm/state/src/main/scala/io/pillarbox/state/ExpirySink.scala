package io.pillarbox.state

/**
 * Takes what a backend has removed because it was expired: key, namespace, user key (null but for maps),
 * value.
 */
private[pillarbox] trait ExpirySink {
  def onExpire(key: Any, namespace: Namespace, userKey: Any, value: Any): Unit
}

private[pillarbox] object ExpirySink {

  val None: ExpirySink = (_, _, _, _) => ()
}
