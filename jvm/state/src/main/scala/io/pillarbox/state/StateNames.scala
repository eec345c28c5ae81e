package io.pillarbox.state

private[pillarbox] object StateNames {

  /** The prefix of the names that a checkpoint has beside a function's states; Python knows the same. */
  final val Reserved = "pillarbox "

  /** @throws java.lang.IllegalArgumentException if a function can't give a state this name */
  def check(name: String): Unit = if (name.startsWith(Reserved))
    throw new IllegalArgumentException(
      s"The name of a state can't begin with '$Reserved', but it is '$name': checkpoints have the timers " +
        "and waiting rows under such names. Give the state another name"
    )
}
