/** Notices from a module to the same module on the other nodes. Best effort: they may be lost with a node. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Bus } from './bus.ts';

/** Notices that wait while the bus is busy; further ones are dropped. */
const MAX_NOTICES = 5_000;
const MAX_BYTES = 4_000_000;

export interface NodeBroadcastOptions<NodeNotice> {
  readonly bus: Pick<Bus, 'publish' | 'subscribe'>;
  readonly topic: string;
  /** Called with a notice of another node. */
  readonly receive: (notice: NodeNotice) => void;
  /** Called with the number of notices that were not sent. */
  readonly onDropped: (count: number) => void;
}

/**
 * Notices of one turn of the event loop are sent together, and so are those that come while the last batch is on its way.
 * `size`: bytes, roughly. The subscription to the bus cannot be ended: call it once per process.
 */
export function createNodeBroadcast<NodeNotice>({
  bus,
  topic,
  receive,
  onDropped,
}: NodeBroadcastOptions<NodeNotice>): (notice: NodeNotice, size: number) => void {
  const outside = AsyncLocalStorage.snapshot();
  let waiting: NodeNotice[] = [];
  let bytes = 0;
  let busy = false;
  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      const notices = waiting;
      waiting = [];
      bytes = 0;
      await bus.publish(topic, notices).catch(() => onDropped(notices.length));
    }
    busy = false;
  };
  bus.subscribe(topic, (payload) => {
    for (const notice of payload as readonly NodeNotice[]) receive(notice);
  });
  return (notice, size) => {
    if (waiting.length >= MAX_NOTICES || bytes + size > MAX_BYTES) {
      onDropped(1);
      return;
    }
    waiting.push(notice);
    bytes += size;
    if (busy) return;
    busy = true;
    setImmediate(() => outside(() => void flush()));
  };
}
