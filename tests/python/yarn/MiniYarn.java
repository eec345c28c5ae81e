import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A resource manager and two node managers of YARN in one process, until standard input ends. Writes the
 * settings of clients into the folder that is given, and then "ready".
 */
public final class MiniYarn {
  private MiniYarn() {}

  public static void main(String[] args) throws Exception {
    var conf = new YarnConfiguration();
    conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100.0");
    conf.set("yarn.scheduler.minimum-allocation-mb", "256");
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    conf.set(
        "yarn.scheduler.capacity.resource-calculator",
        "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator");
    var cluster = new MiniYARNCluster("pillarbox", 2, 1, 1);
    cluster.init(conf);
    cluster.start();
    var folder = Files.createDirectories(Path.of(args[0]));
    for (var name : new String[] {"yarn-site.xml", "core-site.xml"}) {
      try (OutputStream out = new FileOutputStream(folder.resolve(name).toFile())) {
        cluster.getConfig().writeXml(out);
      }
    }
    System.out.println("ready");
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
