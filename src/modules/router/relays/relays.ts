/** Event relays as operators keep them, and as every node has them at hand. */
import type { Kernel } from '../../../host/kernel.ts';
import { type AuthorityObject, requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { routerErrors } from '../errors.ts';
import {
  deleteRelay,
  findRelay,
  listRelays,
  lockRelay,
  putRelay,
  type RelayDefinition,
  type RelayRow,
} from './store.ts';
import { pathForm, templateProblems } from './template.ts';

/** What is left out stays, or is what a new relay has. */
export type RelayChange = {
  readonly [K in keyof RelayDefinition]?: RelayDefinition[K] | undefined;
};
export type NewRelay = RelayChange & Pick<RelayDefinition, 'name' | 'busEvent' | 'socketEvent'>;

export interface Relays {
  list(page: { readonly skip: number; readonly limit: number }): ReturnType<typeof listRelays>;
  /** Throws 404. */
  get(id: string): Promise<RelayRow>;
  /** Throws 400, 403 for events of modules that the caller may not touch, 409 for the name. */
  create(caller: Caller, relay: NewRelay): Promise<RelayRow>;
  update(caller: Caller, id: string, change: RelayChange): Promise<RelayRow>;
  remove(caller: Caller, id: string): Promise<void>;
  /** What whoever makes, changes or deletes such a relay must be allowed to touch. */
  touchedBy(relay: Pick<RelayDefinition, 'busEvent'>): readonly AuthorityObject[];
  /** Those that are switched on, mostly from memory. What a call has changed is known on every node when it returns. */
  active(): Promise<readonly RelayRow[]>;
}

export const MAX_RELAYS = 500;
const ALL = 'all';

/** Events of the transport and of the namespace itself. */
const reserved: ReadonlySet<string> = new Set([
  ...['connect', 'connect_error', 'disconnect', 'disconnecting', 'newListener', 'removeListener'],
  ...['error', 'event_error', 'conduit_error', 'ended', 'subscribe', 'unsubscribe', 'refreshAuth'],
]);

const unset: Omit<RelayDefinition, 'name' | 'busEvent' | 'socketEvent'> = {
  notes: null,
  active: true,
  resourceType: null,
  resourceIdPath: null,
  permission: null,
  messageTemplate: null,
};

interface ChangeParts extends Pick<Kernel, 'database' | 'events'> {
  readonly forget: () => Promise<void>;
}

/** A change of one relay: its event in the same transaction, and every node forgets what it knew. */
const changesOf =
  ({ database, events, forget }: ChangeParts) =>
  <T>(
    caller: Caller,
    what: string,
    id: string,
    work: (before: RelayRow | undefined) => Promise<T>,
  ): Promise<T> =>
    database
      .transaction(async (transaction) => {
        const result = await work(await lockRelay(transaction, id));
        await events.emit(transaction, caller, { topic: `router:${what}:relay`, ids: [id] });
        transaction.afterCommit(forget, { alsoInDoubt: true });
        return result;
      })
      .catch((error: unknown) => {
        throw codeOf(error) === '23505' ? routerErrors.EVENT_RELAY_EXISTS() : error;
      });

export function createRelays({
  database,
  events,
  caches,
  schemas,
}: Pick<Kernel, 'database' | 'events' | 'caches' | 'schemas'>): Relays {
  const cache = caches.create<{ readonly relays: readonly RelayRow[] }>({
    ...{ name: 'router.relays', maxEntries: 1, ttlMs: 60_000 },
  });
  const changing = changesOf({ database, events, forget: () => cache.invalidate([ALL]) });
  const touchedBy: Relays['touchedBy'] = (relay) => heardBy(schemas, relay);
  const put = (caller: Caller, id: string, relay: RelayDefinition): Promise<RelayRow> => {
    requireAuthority(caller, ...touchedBy(relay));
    return putRelay(database, id, checkedRelay(relay));
  };

  return {
    list: (page) => listRelays(database, page),
    async get(id) {
      const relay = await findRelay(database, id);
      if (!relay) throw routerErrors.EVENT_RELAY_NOT_FOUND();
      return relay;
    },
    create: (caller, given) => {
      const id = newId();
      return changing(caller, 'create', id, async () => {
        const { count } = await listRelays(database, { skip: 0, limit: 0 });
        if (count >= MAX_RELAYS) throw routerErrors.EVENT_RELAY_LIMIT_EXCEEDED();
        return put(caller, id, withUsual(given));
      });
    },
    update: (caller, id, change) =>
      changing(caller, 'update', id, async (before) => {
        if (!before) throw routerErrors.EVENT_RELAY_NOT_FOUND();
        requireAuthority(caller, ...touchedBy(before));
        return put(caller, id, { ...before, ...defined(change) });
      }),
    remove: (caller, id) =>
      changing(caller, 'delete', id, async (before) => {
        if (!before) throw routerErrors.EVENT_RELAY_NOT_FOUND();
        requireAuthority(caller, ...touchedBy(before));
        await deleteRelay(database, id);
      }),
    touchedBy,
    async active() {
      const { relays } = await cache.load(ALL, () =>
        listRelays(database, { skip: 0, limit: MAX_RELAYS }),
      );
      return relays.filter((relay) => relay.active);
    },
  };
}

/** As a new one would be stored. */
export const withUsual = (given: NewRelay): RelayDefinition => ({ ...unset, ...defined(given) });

/** Throws 400. */
export function checkedRelay(relay: RelayDefinition): RelayDefinition {
  const problems = relayProblems(relay);
  if (problems.length > 0) throw invalidInput(problems);
  return relay;
}

const defined = <T extends object>(given: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };

/**
 * What a relay tells of: the module before the colon. Events of records are of the schema that they name; a pattern that
 * may be about records of any schema is about all modules.
 */
function heardBy(
  schemas: Pick<Kernel['schemas'], 'get'>,
  { busEvent }: Pick<RelayDefinition, 'busEvent'>,
): readonly AuthorityObject[] {
  const [module = '', , schema = ''] = busEvent.split(':');
  const ofModule = { kind: 'module', module } as const;
  if (module !== 'database') return [ofModule];
  if (busEvent.endsWith('*'))
    return [ofModule, { kind: 'everything', what: 'Passing on events of records of any schema' }];
  return [ofModule, ...schemaObject(schemas.get(schema))];
}

function relayProblems(relay: RelayDefinition): readonly Problem[] {
  const { socketEvent, resourceType, resourceIdPath, permission, messageTemplate } = relay;
  const problems: Problem[] = [...templateProblems(messageTemplate)];
  const add = (path: string, rule: string, message: string): void =>
    void problems.push({ path, rule, message });
  if (reserved.has(socketEvent)) add('socketEvent', 'name', 'this event is taken by the platform');
  if (resourceIdPath !== null && !pathForm.test(resourceIdPath))
    add('resourceIdPath', 'format', 'is no path into an event, such as id or payload.room');
  if (permission !== null && resourceType === null)
    add('resourceType', 'required', 'name what the permission is about');
  if (resourceType !== null && permission === null)
    add('permission', 'required', 'say what subscribers must be allowed to do');
  return problems;
}
