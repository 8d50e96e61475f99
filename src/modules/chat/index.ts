/** Chat: rooms, their members and messages, over REST and over sockets. */
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { type Caller, system } from '../../kernel/caller.ts';
import { authentication } from '../authentication/index.ts';
import { communications } from '../communications/index.ts';
import { router } from '../router/index.ts';
import { storage } from '../storage/index.ts';
import { type ChatConfig, chatConfig } from './config.ts';
import { chatJobs, leaveToHeirs } from './jobs.ts';
import { migrations } from './migrations.ts';
import { adminMessageOperations } from './operations/admin-messages.ts';
import { adminRoomOperations } from './operations/admin-rooms.ts';
import { invitationOperations } from './operations/invitations.ts';
import { messageOperations } from './operations/messages.ts';
import { moderationOperations } from './operations/moderation.ts';
import { roomOperations } from './operations/rooms.ts';
import { readableThroughRooms } from './queries/messages.ts';
import {
  invitationSchema,
  memberSchema,
  messageSchema,
  participantsLogSchema,
  roomSchema,
} from './schemas.ts';
import { type ChatMetrics, measureChat } from './services/chat-metrics.ts';
import type { ChatParts } from './services/chat-parts.ts';
import { type ChatServices, createChatServices } from './services/chat-services.ts';
import { createHub, type Hub } from './services/hub.ts';
import { invitationTemplate } from './services/invitations.ts';
import type { ServerMessage } from './services/messages.ts';
import { createPresence, type Presence } from './services/presence.ts';
import { answerForPushes } from './services/push.ts';
import type { DeletedRoom } from './services/rooms.ts';
import { chatNamespace } from './sockets/namespace.ts';
import { chatNotices } from './sockets/notices.ts';

/** What other modules may ask of chat. */
export interface ChatService {
  /** Puts the users into a new room at once. */
  createRoom(
    caller: Caller,
    name: string,
    participants: readonly string[],
  ): Promise<{
    readonly _id: string;
    readonly name: string;
    readonly participants: readonly string[];
  }>;
  /** For good, whatever is audited. Throws CHAT_ROOM_NOT_FOUND. */
  deleteRoom(caller: Caller, roomId: string): Promise<DeletedRoom>;
  sendMessage(message: ServerMessage): Promise<void>;
}

interface Requirements {
  readonly router: typeof router;
  readonly communications: typeof communications;
  readonly authentication: typeof authentication;
  readonly [name: string]: typeof router | typeof communications | typeof authentication;
}
interface Uses {
  readonly storage: typeof storage;
  readonly [name: string]: typeof storage;
}

export const chat = defineModule({
  name: 'chat',
  description: 'Conversations: rooms, messages, invitations, over REST and sockets',
  requires: { router, communications, authentication },
  uses: { storage },
  config: chatConfig,
  schemas: [roomSchema, memberSchema, messageSchema, invitationSchema, participantsLogSchema],
  migrations,
  start,
});

/** Operations that exist only while the configuration wants them. */
const switchable = 'chat/switchable';

async function start({
  kernel,
  config,
  services,
  optional,
  log,
}: ModuleContext<ChatConfig, Requirements, Uses>): Promise<RunningModule<ChatService>> {
  const { hub, presence, measures, history } = lastingParts(kernel, log);
  history.joinedOnly = () => config.current().history === 'joined';
  const parts: ChatParts = {
    ...kernel,
    hub,
    log,
    config: () => config.current(),
    communications: services.communications,
    storage: optional.storage,
    publicUrl: services.router.publicUrl,
    refused: measures.refused,
  };
  const chatServices = createChatServices(parts, { measures, presence });
  await services.communications.templates.register('chat', [invitationTemplate]);
  answerForPushes(parts);
  let running = true;
  const publish = (): void =>
    kernel.operations.replace(
      switchable,
      running && config.current().explicit_room_joins.enabled
        ? invitationOperations(chatServices)
        : [],
    );
  publish();
  const stops = [
    config.onChange(publish),
    followStorage(parts),
    services.authentication.onErasure((transaction, users) =>
      leaveToHeirs(parts, transaction, users),
    ),
    kernel.sockets.register(chatNamespace(chatServices)),
    kernel.operatorNotices.register(chatNotices),
  ];
  presence.start();
  return {
    service: serviceOf(chatServices),
    operations: [
      ...roomOperations(chatServices),
      ...messageOperations(chatServices),
      ...moderationOperations(chatServices),
      ...adminRoomOperations(chatServices),
      ...adminMessageOperations(chatServices),
    ],
    jobs: chatJobs(parts, chatServices.rooms),
    async stop() {
      running = false;
      for (const stop of stops) stop();
      publish();
      await presence.stop();
    },
  };
}

const serviceOf = ({ rooms, messages }: ChatServices): ChatService => ({
  async createRoom(caller, name, participants) {
    const _id = await rooms.createAsServer(caller, { name, participants });
    return { _id, name, participants };
  },
  deleteRoom: (caller, roomId) => rooms.deleteAsServer(caller, roomId),
  async sendMessage(message) {
    await messages.sendAsServer(system('chat'), message);
  },
});

/** Members read the files of messages in their rooms. */
function followStorage({ storage: files, database, config }: ChatParts): () => void {
  let stop: (() => void) | undefined;
  const follow = (): void => {
    stop?.();
    stop = files
      .current()
      ?.onRead((userId, fileId) =>
        readableThroughRooms(database, userId, fileId, config().history === 'joined'),
      );
  };
  follow();
  const unfollow = files.onChange(follow);
  return () => {
    unfollow();
    stop?.();
  };
}

/** What is tied to the bus for as long as the process lives, also while the module is switched off and on. */
interface LastingParts {
  readonly hub: Hub;
  readonly presence: Presence;
  readonly measures: ChatMetrics;
  /** Follows the configuration of the module that runs now. */
  readonly history: { joinedOnly: () => boolean };
}

const partsOf = new WeakMap<Kernel, LastingParts>();

function lastingParts(kernel: Kernel, log: ChatParts['log']): LastingParts {
  const known = partsOf.get(kernel);
  if (known) return known;
  const history = { joinedOnly: () => false };
  const hub = createHub({ ...kernel, log, joinedOnly: () => history.joinedOnly() });
  const presence = createPresence({ ...kernel, hub, log });
  const parts = { hub, presence, history, measures: measureChat(kernel, hub) };
  partsOf.set(kernel, parts);
  return parts;
}
