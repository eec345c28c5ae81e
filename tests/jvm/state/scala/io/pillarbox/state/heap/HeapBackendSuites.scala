package io.pillarbox.state.heap

import io.pillarbox.api.TypeSerializer
import io.pillarbox.state._

trait HeapFixture extends StateFixture {
  override def openBackend[K](
      keys: TypeSerializer[K],
      clock: StateClock,
      sweeps: Boolean
  ): KeyedStateBackend[K] = new HeapKeyedStateBackend[K](keys, clock, sweeps = sweeps)
}

class HeapKeyedStateSuite extends KeyedStateContract with HeapFixture

class HeapTtlSuite extends TtlContract with HeapFixture

class HeapPersistenceSuite extends PersistenceContract with HeapFixture
