/** The namespace `/chat/`. */
import type { SocketNamespace } from '../../../kernel/sockets/socket-namespace.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { namespaceName } from '../services/hub.ts';
import { chatEvents, sentEvents } from './events.ts';

export const chatNamespace = (services: ChatServices): SocketNamespace => ({
  name: namespaceName,
  summary: 'Conversations: a socket hears all rooms of its user.',
  errorEvent: 'chat_error',
  events: chatEvents(services),
  sends: sentEvents,
  graphql: { field: 'chatEvents', by: 'room' },
  async admit(connection) {
    const { parts, presence } = services;
    const { connected, closed } = await parts.hub.admit(connection);
    return {
      connected,
      closed() {
        presence.forget(connection);
        closed();
      },
    };
  },
});
