package io.pillarbox.files;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/**
 * Appends a line to a file for each row as it comes, its values between commas. (Spark's {@code foreach} with a Python
 * function keeps rows back.)
 */
public final class RowsToFile extends ForeachWriter<Row> {
  private final String file;

  public RowsToFile(String file) {
    this.file = file;
  }

  @Override public boolean open(long partition, long epoch) {
    return true;
  }

  @Override public void process(Row row) {
    try {
      Files.writeString(Path.of(file), row.mkString(",") + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override public void close(Throwable error) {}
}
