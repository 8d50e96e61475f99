/** Channels for apps: broadcast, presence, and the last messages. */
import type { Kernel } from '../../../host/kernel.ts';
import type { JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { type Broadcast, channelsJob, createBroadcast } from './broadcast.ts';
import type { ChannelDefinition } from './definitions.ts';
import { createRealtime, type Realtime } from './from-server.ts';
import { createMembers, type Members } from './members.ts';
import { channelNamespace } from './namespace.ts';

export type { Realtime } from './from-server.ts';

export interface Channels {
  readonly realtime: Realtime;
  readonly job: JobDefinition;
  /** Definitions are others now. */
  redefined(): void;
  /** Serves the namespace. Answers how to stop. */
  start(): () => void;
}

/** What is tied to the bus for as long as the process lives. */
interface LastingParts {
  readonly members: Members;
  readonly broadcast: Broadcast;
  settings: () => ChannelSettings;
}

/** What operators set about channels; read when it is needed. */
export interface ChannelSettings {
  readonly channels: readonly ChannelDefinition[];
  readonly realtime: { readonly roomsPerSocket: number };
}

/** Until the module has started. */
const unset: ChannelSettings = { channels: [], realtime: { roomsPerSocket: 0 } };

const partsOf = new WeakMap<Kernel, LastingParts>();

function lastingParts(kernel: Kernel, log: Logger): LastingParts {
  const known = partsOf.get(kernel);
  if (known) return known;
  const broadcast = createBroadcast(kernel);
  const members = createMembers({
    ...kernel,
    log,
    definitions: () => parts.settings().channels,
    maxOfSocket: () => parts.settings().realtime.roomsPerSocket,
    tell: (notice, except) =>
      broadcast({ channel: notice.channel, event: 'presence', data: notice, except, size: 1_024 }),
  });
  kernel.metrics.gauge('realtime_channel_members', 'Sockets of this node in channels', () =>
    members.count(),
  );
  const parts: LastingParts = { members, broadcast, settings: () => unset };
  partsOf.set(kernel, parts);
  return parts;
}

export function createChannels(
  kernel: Kernel,
  settings: LastingParts['settings'],
  log: Logger,
): Channels {
  const parts = lastingParts(kernel, log);
  parts.settings = settings;
  const definitions = (): readonly ChannelDefinition[] => parts.settings().channels;
  return {
    realtime: createRealtime({
      ...kernel,
      broadcast: parts.broadcast,
      definitions,
    }),
    job: channelsJob(kernel),
    redefined: () => parts.members.redefined(),
    start() {
      const stopMembers = parts.members.start();
      const unserve = kernel.sockets.register(channelNamespace({ ...kernel, ...parts }));
      return () => {
        unserve();
        stopMembers();
      };
    },
  };
}
