/** Listeners that are no sockets of Socket.IO: event streams, and subscriptions of GraphQL. They do not come back by themselves. */
import { type Client, createClient } from 'graphql-ws';
import { expect } from 'vitest';
import { WebSocket } from 'ws';
import type { Json } from '../../test/support/api.ts';
import type { TestNode } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { applyChanges } from './clients.ts';

export interface ReadEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: Json;
}

const lineOf = (name: string, part: string): string | undefined =>
  new RegExp(`^${name}: (.*)$`, 'm').exec(part)?.[1];

/** Reads a stream of events to its end, whoever ends it. */
export async function readEvents(
  answer: Response,
  heard: (event: ReadEvent) => void,
): Promise<void> {
  let text = '';
  const decoder = new TextDecoder();
  try {
    for await (const bytes of answer.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true });
      const parts = text.split('\n\n');
      text = parts.pop() ?? '';
      for (const part of parts) {
        const data = JSON.parse(lineOf('data', part) ?? 'null');
        heard({ id: lineOf('id', part), event: lineOf('event', part), data });
      }
    }
  } catch {
    // It was left.
  }
}

const open: (() => void)[] = [];
/** To be called after each test. */
export const closeStreams = (): void => {
  for (const close of open.splice(0)) close();
};

/** A list as its listener has it, over whatever it comes. */
export interface HeardList {
  readonly records: Json[];
  /** `added`, `changed` and `removed`, each with the title of the record. */
  readonly told: string[];
  /** What ended it: the code of an error, or of the connection. */
  readonly end: () => string | number | undefined;
}

function createHeard() {
  const [records, told]: [Json[], string[]] = [[], []];
  const list = (all: readonly Json[]): void => void records.splice(0, records.length, ...all);
  const changes = (some: readonly Json[]): void => {
    for (const change of some) {
      const shown = change.record ?? records.find(({ _id }) => _id === change.id);
      told.push(`${change.kind} ${shown?.title}`);
      applyChanges(records, [change]);
    }
  };
  return { records, told, list, changes };
}

/** `GET /listen` with a token, or `/listen/ticket`. */
export async function openEventStream(
  node: Pick<TestNode, 'addresses'>,
  by: { readonly accessToken: string } | { readonly ticket: string },
  query: Readonly<Record<string, string>>,
): Promise<HeardList> {
  const abort = new AbortController();
  open.push(() => abort.abort());
  const withTicket = 'ticket' in by;
  const search = new URLSearchParams({ ...query, ...(withTicket && { ticket: by.ticket }) });
  const answer = await fetch(
    `${node.addresses.client}/listen${withTicket ? '/ticket' : ''}?${search}`,
    {
      signal: abort.signal,
      headers: withTicket ? {} : { authorization: `Bearer ${by.accessToken}` },
    },
  );
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
  const { records, told, list, changes } = createHeard();
  let begun = false;
  let end: string | undefined;
  void readEvents(answer, ({ event, data }) => {
    if (event === 'list') list(data.records);
    if (event === 'records') changes(data.changes);
    if (event === 'error') end = data.code;
    begun ||= event === 'list';
  }).finally(() => {
    end ??= 'left';
  });
  await waitFor(() => begun, { what: 'the beginning of the stream' });
  return { records, told, end: () => end };
}

/** A subscription to `Task`; `params` go with `connection_init`, `search` stands in the address. */
export async function openSubscription(
  node: Pick<TestNode, 'addresses'>,
  params: Readonly<Record<string, unknown>>,
  search = '',
): Promise<HeardList> {
  const { records, told, list, changes } = createHeard();
  let begun = false;
  let end: number | undefined;
  const client: Client = createClient({
    url: `${node.addresses.client.replace('http', 'ws')}/graphql${search}`,
    webSocketImpl: WebSocket,
    retryAttempts: 0,
    connectionParams: params,
    on: {
      closed(event) {
        end = (event as { readonly code: number }).code;
      },
    },
  });
  open.push(() => void client.dispose());
  const query = `subscription { getDatabaseTask {
    records { _id title } changes { kind id index record { _id title } } } }`;
  client.subscribe<Json>(
    { query },
    {
      next({ data }) {
        const { records: all, changes: some } = (data as Json).getDatabaseTask;
        if (all) list(all);
        changes(some ?? []);
        begun = true;
      },
      error: () => undefined,
      complete: () => undefined,
    },
  );
  await waitFor(() => begun || end !== undefined, { what: 'the first list' });
  if (end === undefined) expect(begun).toBe(true);
  return { records, told, end: () => end };
}
