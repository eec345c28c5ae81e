package io.pillarbox.spark.async

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import scala.collection.mutable

import io.pillarbox.metered.budget.{BudgetSpent, BudgetTerms}
import io.pillarbox.spark.checkpoint.{InParallel, StateFiles}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * A budget that a folder keeps, over runs and for several drivers at once. Each driver has files of its own
 * there, which say what it has spent or may spend; the sum over all is what is spent.
 *
 * Nobody waits for another driver, and no file is written by two. A driver writes first what it wants, and then
 * reads what others have: of two that do so at once, one at least sees the other's. So if the sum that it reads is
 * within the budget, no other one can have found the same without it. What the file system must promise is that
 * a file is listed, and read, as soon as it is written.
 */
private[pillarbox] final class FolderBudget(folder: Path, conf: Configuration) extends BudgetStore {
  import FolderBudget._

  private val ownName = s"run-${UUID.randomUUID}"
  // A list that takes long sees one of two files.
  private val own = new CheckpointBudget(folder, ownName, conf, left = 2)
  private val files = StateFiles.in(folder, conf)

  /** The newest file of each other driver that was seen, and what it says. */
  private val known = mutable.HashMap.empty[String, (Long, BudgetSpent)]

  override def path: String = folder.toString

  override def isShared: Boolean = true

  /** The amounts of all other drivers. */
  override def read(terms: BudgetTerms): BudgetSpent = {
    var tries = 1
    while (!isRead(terms))
      if (tries < MostTries) tries += 1
      else throw new IOException(s"Files of the budget in $folder go while they are read")
    BudgetSpent.sum(terms.units, known.valuesIterator.map(_._2))
  }

  /** False if files that were listed, or known, were gone. */
  private def isRead(terms: BudgetTerms): Boolean = {
    val newest = mutable.HashMap.empty[String, Long]
    files.list().foreach {
      case Numbered(name, number) if name != ownName =>
        newest(name) = math.max(newest.getOrElse(name, 0L), number.toLong)
      case _ => ()
    }
    known.keys.forall(newest.contains) && {
      val unread = newest.toSeq.filterNot { case (name, number) => known.get(name).exists(_._1 >= number) }
      val found = InParallel(unread.map { case (name, number) => () => readFile(name, number, terms) })
      unread.zip(found).foreach { case ((name, number), says) =>
        says.foreach(spent => known(name) = number -> spent)
      }
      found.forall(_.isDefined)
    }
  }

  private def readFile(name: String, number: Long, terms: BudgetTerms): Option[BudgetSpent] =
    try Some(CheckpointBudget.read(files, s"$name.$number.json", terms))
    catch { case _: FileNotFoundException => None }

  /** @param spent the amounts of this driver alone */
  override def write(terms: BudgetTerms, spent: BudgetSpent): Unit = own.write(terms, spent)
}

private object FolderBudget {
  private val Numbered = """(run-.+)\.(\d{1,18})\.json""".r
  private final val MostTries = 10
}
