/** What members are told, on this node at once and on the others by the bus; and the parts of channels put together. */
import { AsyncLocalStorage } from 'node:async_hooks';
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { purgeMessages } from './store.ts';

export const namespaceName = '/channels';

/** The room of all sockets of a user. No channel has such a name. */
export const userRoom = (userId: string): string => `@${userId.toLowerCase()}`;

/** It may be lost with a node: what has to be known again is asked for. */
export interface Word {
  readonly channel: string;
  readonly event: 'message' | 'presence' | 'notice';
  readonly data: unknown;
  /** Id of a socket that does not hear it. */
  readonly except?: string | undefined;
  /** Of the payload, about; bytes. */
  readonly size: number;
}

export type Say = (word: Word) => void;

/** What waits for the bus while it is busy. */
const MOST_WORDS = 5_000;
const MOST_BYTES = 4_000_000;

const topic = 'channels.words';

/** Listening to the bus cannot be ended: once per process. */
export function createWords({
  bus,
  sockets,
  metrics,
}: Pick<Kernel, 'bus' | 'sockets' | 'metrics'>): Say {
  const sent = metrics.counter('realtime_channel_messages_total', 'Messages sent in channels');
  const dropped = metrics.counter(
    'realtime_channel_dropped_total',
    'Messages in channels that did not get to other nodes',
  );
  const hear = ({ channel, event, data, except }: Word): void =>
    sockets.broadcast(
      namespaceName,
      except === undefined ? channel : { channel, except },
      event,
      data,
    );
  const outside = AsyncLocalStorage.snapshot();
  let waiting: Word[] = [];
  let bytes = 0;
  let busy = false;
  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      const words = waiting;
      waiting = [];
      bytes = 0;
      await bus.publish(topic, words).catch(() => dropped.inc({}, words.length));
    }
    busy = false;
  };
  bus.subscribe(topic, (payload) => {
    for (const word of payload as readonly Word[]) hear(word);
  });
  return (word) => {
    hear(word);
    if (word.event !== 'presence') sent.inc();
    if (waiting.length >= MOST_WORDS || bytes + word.size > MOST_BYTES) {
      dropped.inc();
      return;
    }
    waiting.push(word);
    bytes += word.size;
    if (busy) return;
    busy = true;
    setImmediate(() => outside(() => void flush()));
  };
}

const BATCH = 1_000;

/** Deletes messages that are older than a day. */
export const channelsJob = ({ database }: Pick<Kernel, 'database'>): JobDefinition =>
  defineJob({
    name: 'router.tidyChannels',
    data: Type.Object({}),
    schedule: '41 * * * *',
    async handler(_data, { signal }) {
      for (let gone = BATCH; gone === BATCH && !signal.aborted; )
        gone = await purgeMessages(database, BATCH);
    },
  });
