import io.pillarbox.metered.journal.CallCost;
import io.pillarbox.metered.journal.CallKey;
import io.pillarbox.metered.journal.HeldJournal;
import io.pillarbox.metered.journal.JournalLimits;
import io.pillarbox.metered.journal.JournalOperator;
import io.pillarbox.metered.journal.Journals;
import io.pillarbox.metered.journal.LocalJournalFiles;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.column.ColumnReader;
import org.apache.parquet.column.impl.ColumnReadStoreImpl;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.io.LocalOutputFile;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.io.api.Converter;
import org.apache.parquet.io.api.GroupConverter;
import org.apache.parquet.io.api.PrimitiveConverter;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;

/**
 * Keeps answers of 100 bytes, and looks a tenth of them up: in segments, or in Parquet sorted by call id.
 *
 * <p>Arguments: the number of answers, a folder, and {@code segments} or {@code parquet}. Prints a line for each
 * figure, its name and number. {@code journal_lookups.py} runs it.
 */
public final class JournalLookups {
  private static final MessageType SCHEMA =
      MessageTypeParser.parseMessageType(
          "message answer { required fixed_len_byte_array(16) call_id; required int64 written_at;"
              + " required binary key; required binary answer; }");
  private static final int PAGE_ROWS = 1000;

  private final int answers;
  private final Path folder;

  private JournalLookups(int answers, Path folder) {
    this.answers = answers;
    this.folder = folder;
  }

  public static void main(String[] arguments) throws Exception {
    JournalLookups run = new JournalLookups(Integer.parseInt(arguments[0]), Paths.get(arguments[1]));
    if (arguments[2].equals("segments")) run.segments();
    else run.parquet();
    System.exit(0);
  }

  // The answers: everything follows from their numbers.

  private static long mix(long bits) {
    long z = (bits ^ (bits >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    return z ^ (z >>> 31);
  }

  private static long high(long number) {
    return mix(number * 0x9e3779b97f4a7c15L + 1);
  }

  private static long low(long number) {
    return mix(number * 0x9e3779b97f4a7c15L + 2);
  }

  private static byte[] callId(long number) {
    return ByteBuffer.allocate(16).putLong(high(number)).putLong(low(number)).array();
  }

  private static byte[] keyOf(long number) {
    return ByteBuffer.allocate(16).putLong(8, number).array();
  }

  private static byte[] answer(long number) {
    ByteBuffer bytes = ByteBuffer.allocate(100);
    for (int i = 0; i < 12; i++) bytes.putLong(mix(number * 31 + i));
    return bytes.array();
  }

  private static void tell(String figure, double value) {
    System.out.println(figure + " " + value);
  }

  private static double secondsSince(long nanos) {
    return (System.nanoTime() - nanos) / 1e9;
  }

  /** The heap that is in use, in MB. */
  private static double heap() {
    System.gc();
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return (runtime.totalMemory() - runtime.freeMemory()) / 1e6;
  }

  private static double sizeOf(Path path) throws Exception {
    try (var files = Files.walk(path)) {
      return files.map(Path::toFile).filter(File::isFile).mapToLong(File::length).sum();
    }
  }

  // Segments.

  private HeldJournal hold(JournalOperator operator) throws Exception {
    Journals journals =
        new Journals(
            () -> System.nanoTime(),
            () -> System.currentTimeMillis(),
            new JournalLimits(64L << 20, 5000L, 1 << 23),
            () -> Paths.get(System.getProperty("java.io.tmpdir")),
            Journals.$lessinit$greater$default$5());
    return journals.hold("here", 0L, operator, () -> new LocalJournalFiles(folder.resolve("calls")));
  }

  private void segments() throws Exception {
    JournalOperator operator = new JournalOperator("{}");
    if (!Files.exists(folder.resolve("calls"))) {
      long start = System.nanoTime();
      HeldJournal journal = hold(operator);
      CallCost cost = new CallCost(1, CallCost.apply$default$2());
      journal.open();
      for (long i = 0; i < answers; i++) {
        byte[] answer = answer(i);
        journal.add(new CallKey(high(i), low(i), keyOf(i)), cost, answer, answer.length);
        if (i % 1000 == 999) journal.flush();
      }
      journal.flush();
      journal.close();
      tell("write", answers / secondsSince(start));
    }
    tell("bytes", sizeOf(folder.resolve("calls")) / answers);
    double before = heap();
    long start = System.nanoTime();
    HeldJournal journal = hold(operator);
    tell("open", secondsSince(start));
    tell("heap", heap() - before);
    tell("written", lookUp(journal, false));
    tell("random", lookUp(journal, true));
  }

  private double lookUp(HeldJournal journal, boolean atRandom) throws Exception {
    Random random = new Random(7);
    int count = answers / 10;
    long start = System.nanoTime();
    for (int i = 0; i < count; i++) {
      long number = atRandom ? random.nextInt(answers) : i;
      byte[] found = journal.find(new CallKey(high(number), low(number), null));
      if (found.length != 100) throw new AssertionError("not found: " + number);
    }
    return count / secondsSince(start);
  }

  // Parquet.

  private void parquet() throws Exception {
    Path file = folder.resolve("answers.parquet");
    if (!Files.exists(file)) {
      long start = System.nanoTime();
      long[] sorted = new long[answers];
      for (int i = 0; i < answers; i++) sorted[i] = (high(i) & ~0xffffffL) ^ Long.MIN_VALUE | i;
      Arrays.sort(sorted);
      try (ParquetWriter<Long> out = new Builder(new LocalOutputFile(file)).build()) {
        for (long one : sorted) out.write(one & 0xffffffL);
      }
      tell("write", answers / secondsSince(start));
    }
    tell("bytes", sizeOf(file) / answers);
    double before = heap();
    long start = System.nanoTime();
    Lookup lookup = new Lookup(file);
    tell("open", secondsSince(start));
    tell("heap", heap() - before);
    tell("all", lookUp(lookup, answers / 10, answers / 10));
    tell("thousand", lookUp(lookup, 1000, Math.min(50_000, answers / 10)));
    tell("one", lookUp(lookup, 1, 5000));
  }

  private double lookUp(Lookup lookup, int together, int count) throws Exception {
    Random random = new Random(7);
    long start = System.nanoTime();
    for (int done = 0; done < count; done += together) {
      byte[][] ids = new byte[together][];
      for (int i = 0; i < together; i++) ids[i] = callId(random.nextInt(answers));
      lookup.find(ids);
    }
    return count / secondsSince(start);
  }

  private static final class Builder extends ParquetWriter.Builder<Long, Builder> {
    Builder(OutputFile file) {
      super(file);
      withCompressionCodec(CompressionCodecName.UNCOMPRESSED);
      withPageRowCountLimit(PAGE_ROWS);
      withDictionaryEncoding(false);
      withBloomFilterEnabled("call_id", true);
      withBloomFilterNDV("call_id", 1_000_000);
    }

    @Override
    protected Builder self() {
      return this;
    }

    @Override
    protected WriteSupport<Long> getWriteSupport(Configuration conf) {
      return new Rows();
    }
  }

  private static final class Rows extends WriteSupport<Long> {
    private RecordConsumer out;

    @Override
    public WriteContext init(Configuration conf) {
      return new WriteContext(SCHEMA, new HashMap<>());
    }

    @Override
    public void prepareForWrite(RecordConsumer consumer) {
      out = consumer;
    }

    @Override
    public void write(Long number) {
      out.startMessage();
      binary("call_id", 0, callId(number));
      out.startField("written_at", 1);
      out.addLong(number);
      out.endField("written_at", 1);
      binary("key", 2, keyOf(number));
      binary("answer", 3, answer(number));
      out.endMessage();
    }

    private void binary(String field, int index, byte[] value) {
      out.startField(field, index);
      out.addBinary(Binary.fromConstantByteArray(value));
      out.endField(field, index);
    }
  }

  /** Finds answers by the page index, which it holds: the library's own reader reads it anew each time. */
  private static final class Lookup {
    private final ParquetFileReader in;
    private final List<BlockMetaData> groups;
    private final byte[][][] pages;
    private final byte[][] firsts;
    private final OffsetIndex[] offsets;

    Lookup(Path file) throws Exception {
      in = ParquetFileReader.open(new LocalInputFile(file));
      groups = in.getRowGroups();
      pages = new byte[groups.size()][][];
      firsts = new byte[groups.size()][];
      offsets = new OffsetIndex[groups.size()];
      for (int group = 0; group < groups.size(); group++) {
        ColumnChunkMetaData ids = groups.get(group).getColumns().get(0);
        List<ByteBuffer> least = in.readColumnIndex(ids).getMinValues();
        pages[group] = new byte[least.size()][16];
        for (int page = 0; page < least.size(); page++) least.get(page).duplicate().get(pages[group][page]);
        firsts[group] = pages[group][0];
        offsets[group] = in.readOffsetIndex(ids);
      }
    }

    private static int placeOf(byte[] id, byte[][] firsts) {
      int found = Arrays.binarySearch(firsts, id, Arrays::compareUnsigned);
      return Math.max(0, found >= 0 ? found : -found - 2);
    }

    void find(byte[][] ids) throws Exception {
      Arrays.sort(ids, Arrays::compareUnsigned);
      int from = 0;
      while (from < ids.length) {
        int group = placeOf(ids[from], firsts);
        int to = from + 1;
        while (to < ids.length && placeOf(ids[to], firsts) == group) to++;
        findIn(group, ids, from, to);
        from = to;
      }
    }

    private void findIn(int group, byte[][] ids, int from, int to) throws Exception {
      BitSet wanted = new BitSet();
      for (int i = from; i < to; i++) wanted.set(placeOf(ids[i], pages[group]));
      long rows = groups.get(group).getRowCount();
      RowRanges ranges = RowRanges.create(rows, wanted.stream().iterator(), offsets[group]);
      PageReadStore store = in.readFilteredRowGroup(group, ranges);
      ColumnReadStoreImpl columns = new ColumnReadStoreImpl(store, new Ignored(), SCHEMA, "");
      ColumnReader callIds = columns.getColumnReader(SCHEMA.getColumns().get(0));
      ColumnReader answers = columns.getColumnReader(SCHEMA.getColumns().get(3));
      for (int i = from; i < to; i++) {
        if (i > from && Arrays.equals(ids[i], ids[i - 1])) continue;
        while (!Arrays.equals(callIds.getBinary().getBytesUnsafe(), ids[i])) {
          answers.skip();
          answers.consume();
          callIds.consume();
        }
        if (answers.getBinary().getBytes().length != 100) throw new AssertionError();
      }
    }
  }

  private static final class Ignored extends GroupConverter {
    @Override
    public Converter getConverter(int field) {
      return new PrimitiveConverter() {};
    }

    @Override
    public void start() {}

    @Override
    public void end() {}
  }
}
