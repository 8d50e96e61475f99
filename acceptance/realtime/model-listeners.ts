/** Clients of the model over other doors than sockets: they begin anew, with the whole list, whenever they are ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'graphql-ws';
import { WebSocket } from 'ws';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { applyChanges } from './clients.ts';
import type { ModelClient, Place } from './model-clients.ts';
import { readEvents } from './streams.ts';

const nameOf = (door: string, user: TestUser | undefined, schema: string) =>
  `${door} of ${user?.userId ?? 'a visitor'}: ${schema}`;
const tokenOf = (user: TestUser | undefined): Readonly<Record<string, string>> =>
  user ? { authorization: `Bearer ${user.accessToken}` } : {};

/** Runs `hear` again and again until it is closed; `ready` between the first list and the end of a run. */
function listener(
  name: string,
  hear: (list: ListState, signal: AbortSignal) => Promise<void>,
): ModelClient {
  const list: ListState = { records: [], ready: false };
  const closed = new AbortController();
  let current = new AbortController();
  const run = async (): Promise<void> => {
    while (!closed.signal.aborted) {
      current = new AbortController();
      await hear(list, AbortSignal.any([current.signal, closed.signal])).catch(() => undefined);
      list.ready = false;
      await sleep(100);
    }
  };
  void run();
  return {
    name,
    drop: () => current.abort(),
    close: () => closed.abort(),
    state: () => ({ ...list, gap: false }),
  };
}

interface ListState {
  records: Json[];
  ready: boolean;
}

/** `GET /listen`, with or without a token. */
export function streamListener(
  place: Place,
  user: TestUser | undefined,
  schema: string,
): ModelClient {
  return listener(nameOf('stream', user, schema), async (list, signal) => {
    const answer = await fetch(`${place().client}/listen?schema=${schema}`, {
      signal,
      headers: tokenOf(user),
    });
    if (answer.status !== 200) return;
    await readEvents(answer, ({ event, data }) => {
      if (event === 'list') Object.assign(list, { records: data.records, ready: true });
      if (event === 'records') applyChanges(list.records, data.changes);
    });
  });
}

/** A subscription of GraphQL, which names its fields. */
export function subscriptionListener(
  place: Place,
  user: TestUser | undefined,
  schema: string,
  fields: readonly string[],
): ModelClient {
  const selection = fields.join(' ');
  const query = `subscription { getDatabase${schema} {
    records { ${selection} } changes { kind id index record { ${selection} } } } }`;
  return listener(nameOf('subscription', user, schema), async (list, signal) => {
    const client = createClient({
      url: `${place().client.replace('http', 'ws')}/graphql`,
      webSocketImpl: WebSocket,
      retryAttempts: 0,
      connectionParams: tokenOf(user),
    });
    signal.addEventListener('abort', () => void client.dispose());
    await new Promise<void>((resolve) => {
      client.subscribe<Json>(
        { query },
        {
          next({ data }) {
            const { records, changes } = (data as Json)[`getDatabase${schema}`];
            if (records) Object.assign(list, { records: [...records], ready: true });
            applyChanges(list.records, changes ?? []);
          },
          error: () => resolve(),
          complete: () => resolve(),
        },
      );
    });
    await client.dispose();
  });
}
