package io.pillarbox.files;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system without processes. Hadoop's starts a {@code chmod} for each of the two files that it
 * creates in place of one, and asks {@code readlink} eight times for a rename by a {@code FileContext}, which takes
 * longer than the micro-batch that they are for.
 */
public final class LocalFilesInProcess extends LocalFileSystem {
  public LocalFilesInProcess() {
    super(new Raw());
  }

  /**
   * From now on it is the local file system of this JVM, under the settings that users have: what goes by the
   * settings (the files of state do) goes as for them. Spark's own logs of a query, for which no {@code FileContext}
   * is found any more, are written by its manager for plain file systems.
   *
   * @param session the configuration that the session's queries start from
   */
  public static void install(Configuration session) throws IOException {
    URI local = URI.create("file:///");
    // A file system that is closed leaves Hadoop's cache, and the next one asked for takes its place.
    FileSystem.get(local, session).close();
    Configuration ours = new Configuration(session);
    ours.setClassLoader(LocalFilesInProcess.class.getClassLoader());
    ours.setClass("fs.file.impl", LocalFilesInProcess.class, FileSystem.class);
    FileSystem.get(local, ours);
    session.unset("fs.AbstractFileSystem.file.impl");
  }

  /** The same without checksums. */
  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String nine = new FsPermission((short) (permission.toShort() & 0777)).toString();
      Set<PosixFilePermission> wanted = PosixFilePermissions.fromString(nine);
      Files.setPosixFilePermissions(pathToFile(path).toPath(), wanted);
    }
  }
}
