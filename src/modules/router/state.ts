/**
 * Apps ("security clients") as state, by alias, without id and secret: both belong to one installation. One that an
 * import makes has a secret that nobody has seen; rotating it shows one.
 */

import Type from 'typebox';
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import type { Problem } from '../../kernel/errors.ts';
import { isMiddleware, PROVIDED, routeKeyOf } from '../../kernel/middlewares/middleware-lists.ts';
import type { RouteMiddlewares } from '../../kernel/middlewares/route-middlewares.ts';
import type { Method } from '../../kernel/operations/operation.ts';
import { invalidInput } from '../../kernel/operations/problems.ts';
import {
  type PlacedDocument,
  placed,
  type StateChange,
  type StateDocument,
  type StateImport,
  type StateType,
  touchesNothing,
} from '../../kernel/state.ts';
import { NewClientShape } from './operations/clients.ts';
import { NewRelayShape } from './operations/relays.ts';
import { listClients, type Platform } from './queries.ts';
import {
  checkedRelay,
  MAX_RELAYS,
  type NewRelay,
  type Relays,
  withUsual,
} from './relays/relays.ts';
import type { RelayDefinition } from './relays/store.ts';
import { type Clients, checkedClient, type NamedClient } from './services/clients.ts';

/*
 * What operators put before the routes of the client surface, as state. Lists of admin routes stay out: they are in
 * the hands of super admins, and a document is not. A document may speak of routes that come later.
 */

const surface = 'client';
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

const ListDocument = Type.Object({
  action: Type.Enum([...methods]),
  path: Type.String({
    pattern: '^/',
    maxLength: 1_024,
    description: 'Parameters without their names: /database/Post/:',
  }),
  middlewares: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { maxItems: 16 }),
});

export const middlewareState = (middlewares: RouteMiddlewares): StateType => ({
  module: 'router',
  type: 'routeMiddlewares',
  reportDamaged: true,
  priority: 50,
  document: ListDocument,
  keyOf: keyOfDocument,
  touches: (document) => middlewares.touchedBy(keyOfDocument(document)),
  export: async () =>
    [...middlewares.stored()].flatMap(([key, names]) => {
      const [of, action, path] = key.split(' ');
      return of === surface ? [{ action, path, middlewares: names }] : [];
    }),
  async complete(_caller, documents, whole) {
    const known = new Set([...middlewares.provided(), ...providedBy(whole)]);
    const problems = documents.flatMap((one) => unknownNames(one, known));
    if (problems.length > 0) throw invalidInput(problems);
    return documents.map(({ document }) => ({
      action: document.action,
      path: keyOfDocument(document).split(' ').at(-1),
      middlewares: [...new Set(document.middlewares as string[])],
    }));
  },
  apply: (caller, changes) =>
    middlewares.put(
      caller,
      new Map(
        changes.map(({ key, after }) => [key, after?.middlewares as readonly string[] | undefined]),
      ),
    ),
});

function keyOfDocument({ action, path }: StateDocument): string {
  return routeKeyOf(surface, action as Method, String(path));
}

/** Functions that the same import brings, as lists name them. */
const providedBy = (whole: StateImport): readonly string[] =>
  whole
    .documents('functions', 'functions')
    .flatMap(({ document: { functionType, name } }) =>
      functionType === 'middleware' ? [PROVIDED + String(name)] : [],
    );

const unknownNames = (
  { document, place }: PlacedDocument,
  provided: ReadonlySet<string>,
): readonly Problem[] =>
  (document.middlewares as readonly string[]).flatMap((name, i) =>
    isMiddleware(name) || provided.has(name)
      ? []
      : [
          {
            path: `${place}.middlewares.${i}`,
            rule: 'enum',
            message: 'there is no such middleware',
          },
        ],
  );

const ALL = { skip: 0, limit: 100_000 } as const;

export const clientState = (database: Database, clients: Clients): StateType => ({
  module: 'router',
  type: 'securityClients',
  reportDamaged: true,
  priority: 36,
  document: NewClientShape,
  keyOf: ({ alias }) => String(alias),
  touches: touchesNothing,
  export: async () =>
    (await listClients(database, ALL)).clients.map((client) => documentOf(client)),
  async complete(_caller, documents) {
    const completed: StateDocument[] = [];
    for (const { document, place } of documents)
      completed.push(
        await placed(place, () =>
          documentOf(checkedClient(document as StateDocument & NamedClient)),
        ),
      );
    return completed;
  },
  async check(_caller, changes) {
    const problems = changes.flatMap(({ before, after, place }): readonly Problem[] => {
      if (!before || !after || before.platform === after.platform) return [];
      return [
        {
          path: `${place}.platform`,
          rule: 'fixed',
          message: `cannot change: ${String(before.alias)} is ${String(before.platform)}`,
        },
      ];
    });
    if (problems.length > 0) throw invalidInput(problems);
  },
  apply: (caller, changes) =>
    database.transaction(async () => {
      const stored = new Map(
        (await listClients(database, ALL)).clients.map((client) => [client.alias, client._id]),
      );
      for (const change of changes) await applyOne(clients, caller, change, stored.get(change.key));
    }),
});

async function applyOne(
  clients: Clients,
  caller: Caller,
  { after }: StateChange,
  id: string | undefined,
): Promise<void> {
  const client = after as (StateDocument & NamedClient) | undefined;
  if (client && id !== undefined)
    await clients.update(caller, id, { domain: client.domain, notes: client.notes ?? '' });
  else if (client) await clients.create(caller, client);
  else if (id !== undefined) await clients.remove(caller, id);
}

interface DocumentFields {
  readonly alias: string;
  readonly platform: Platform;
  readonly domain?: string | null | undefined;
  readonly notes?: string | null | undefined;
}

const documentOf = ({ alias, platform, domain, notes }: DocumentFields): StateDocument => ({
  alias,
  platform,
  ...(domain ? { domain } : {}),
  ...(notes ? { notes } : {}),
});

/** Event relays, by name. */
export const relayState = (relays: Relays): StateType => {
  const every = { skip: 0, limit: MAX_RELAYS } as const;
  return {
    module: 'router',
    type: 'eventRelays',
    reportDamaged: true,
    priority: 60,
    document: NewRelayShape,
    keyOf: ({ name }) => String(name),
    touches: ({ busEvent }) => relays.touchedBy({ busEvent: String(busEvent) }),
    export: async () => (await relays.list(every)).relays.map(relayDocument),
    async complete(_caller, documents) {
      const completed: StateDocument[] = [];
      for (const { document, place } of documents)
        completed.push(
          await placed(place, () =>
            relayDocument(checkedRelay(withUsual(document as StateDocument & NewRelay))),
          ),
        );
      return completed;
    },
    async apply(caller, changes) {
      const ids = new Map((await relays.list(every)).relays.map(({ _id, name }) => [name, _id]));
      for (const { key, after } of changes) {
        const id = ids.get(key);
        const relay = after as (StateDocument & NewRelay) | undefined;
        if (relay && id !== undefined) await relays.update(caller, id, withUsual(relay));
        else if (relay) await relays.create(caller, relay);
        else if (id !== undefined) await relays.remove(caller, id);
      }
    },
  };
};

function relayDocument(relay: RelayDefinition): StateDocument {
  const { name, busEvent, socketEvent, active, ...details } = relay;
  const { notes, resourceType, resourceIdPath, permission, messageTemplate } = details;
  const optional = { notes, resourceType, resourceIdPath, permission, messageTemplate };
  const given = Object.entries(optional).filter(([, value]) => value !== null);
  return { name, busEvent, socketEvent, active, ...Object.fromEntries(given) };
}
