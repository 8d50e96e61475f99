/** What members are told, on this node at once and on the others by the bus; and the parts of channels put together. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { createNodeBroadcast } from '../../../kernel/events/node-broadcast.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { purgeMessages } from './store.ts';

export const namespaceName = '/channels';

/** The room of all sockets of a user. No channel has such a name. */
export const userRoom = (userId: string): string => `@${userId.toLowerCase()}`;

/** It may be lost with a node: what has to be known again is asked for. */
export interface NodeNotice {
  readonly channel: string;
  readonly event: 'message' | 'presence' | 'notice';
  readonly data: unknown;
  /** Id of a socket that does not hear it. */
  readonly except?: string | undefined;
  /** Of the payload, about; bytes. */
  readonly size: number;
}

export type Broadcast = (notice: NodeNotice) => void;

const topic = 'channels.words';

/** Listening to the bus cannot be ended: once per process. */
export function createBroadcast({
  bus,
  sockets,
  metrics,
}: Pick<Kernel, 'bus' | 'sockets' | 'metrics'>): Broadcast {
  const sent = metrics.counter('realtime_channel_messages_total', 'Messages sent in channels');
  const dropped = metrics.counter(
    'realtime_channel_dropped_total',
    'Messages in channels that did not get to other nodes',
  );
  const receive = ({ channel, event, data, except }: NodeNotice): void =>
    sockets.broadcast(
      namespaceName,
      except === undefined ? channel : { channel, except },
      event,
      data,
    );
  const tellOthers = createNodeBroadcast({
    bus,
    topic,
    receive,
    onDropped: (count) => dropped.inc({}, count),
  });
  return (notice) => {
    receive(notice);
    if (notice.event !== 'presence') sent.inc();
    tellOthers(notice, notice.size);
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
