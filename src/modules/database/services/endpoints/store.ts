/** The stored endpoints, in memory on every node, and the changes of them. */
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { requireAuthority, schemaObject } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type {
  Database,
  Queryable,
  Statement,
  Transaction,
} from '../../../../kernel/database/database.ts';
import { codeOf } from '../../../../kernel/database/failures.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { Bus } from '../../../../kernel/events/bus.ts';
import type { Events } from '../../../../kernel/events/events.ts';
import { newId } from '../../../../kernel/ids.ts';
import { storedShape } from '../../../../kernel/operations/problems.ts';
import { databaseErrors } from '../../errors.ts';
import {
  type EndpointDefinition,
  emptyEndpoint,
  type StoredEndpoint,
  StoredShape,
} from './definition.ts';

/* SQL of custom endpoints. */

interface EndpointRow {
  readonly id: string;
  readonly name: string;
  readonly schemaName: string;
  readonly definition: EndpointDefinition;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** All of them, by name. */
async function loadEndpoints(database: Queryable): Promise<readonly StoredEndpoint[]> {
  const { rows } = await database.query<EndpointRow>(sql`
    select id, name, schema_name as "schemaName", definition, version, created_at as "createdAt", updated_at as "updatedAt"
    from penstock.custom_endpoints order by name collate "C"`);
  return rows.map((row) => ({
    ...usable(row),
    _id: row.id,
    __v: row.version,
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  }));
}

const problemOf = storedShape(StoredShape);

/** What is stored, or, where that cannot be used, what stands in for it: nothing but its names, and closed. */
function usable({
  name,
  schemaName,
  definition: stored,
}: EndpointRow): EndpointDefinition & Pick<StoredEndpoint, 'damage'> {
  // `requires`: of those that were stored before there were such.
  const definition = { ...stored, requires: stored?.requires ?? null };
  const damage = problemOf(definition);
  if (damage === undefined) return definition;
  const standIn = { ...emptyEndpoint, name, selectedSchemaName: schemaName, authentication: true };
  return { ...standIn, query: null, damage };
}

const insertEndpoint = (id: string, definition: EndpointDefinition): Statement => sql`
  insert into penstock.custom_endpoints (id, name, schema_name, definition, version, created_at, updated_at)
  values (${id}, ${definition.name}, ${definition.selectedSchemaName}, ${JSON.stringify(definition)}, 0, now(), now())`;

/** Answers a row when the endpoint was there, and as whoever changes it knew it. */
const updateEndpoint = (
  { id, version }: KnownVersion,
  definition: EndpointDefinition,
): Statement => sql`
  update penstock.custom_endpoints
  set schema_name = ${definition.selectedSchemaName}, definition = ${JSON.stringify(definition)}, version = version + 1, updated_at = now()
  where id = ${id} and version = ${version} returning id`;

/** Answers a row when the endpoint was there. */
const deleteEndpoint = (id: string): Statement =>
  sql`delete from penstock.custom_endpoints where id = ${id} returning id`;

/** Imports go one after the other, so that two of the same endpoints do not meet. */
const lockEndpointImport: Statement = {
  text: `select pg_advisory_xact_lock(hashtextextended('penstock.custom_endpoints', 0))`,
};

/** Makes the endpoint, or changes the one of that name; one that is the same already stays untouched. */
const putEndpoint = (id: string, definition: EndpointDefinition): Statement => sql`
  with changed as (
    update penstock.custom_endpoints
    set schema_name = ${definition.selectedSchemaName}, definition = ${JSON.stringify(definition)}, version = version + 1, updated_at = now()
    where name = ${definition.name} and definition::text <> ${JSON.stringify(definition)}
  )
  insert into penstock.custom_endpoints (id, name, schema_name, definition, version, created_at, updated_at)
  select ${id}, ${definition.name}, ${definition.selectedSchemaName}, ${JSON.stringify(definition)}, 0, now(), now()
  where not exists (select 1 from penstock.custom_endpoints where name = ${definition.name})`;

/** An endpoint as somebody has read it. */
interface KnownVersion {
  readonly id: string;
  readonly version: number;
}

export interface EndpointStore {
  /** By name. Endpoints that did not change stay the same objects. */
  all(): readonly StoredEndpoint[];
  /** In either spelling. */
  byId(id: string): StoredEndpoint | undefined;
  /** Runs on every node after it has taken in a change, before the changing call returns. */
  onChange(listener: () => void | Promise<void>): void;
  create(caller: Caller, definition: EndpointDefinition): Promise<StoredEndpoint>;
  /** Nothing where it has been changed since this version: what is stored is known here then. */
  update(
    caller: Caller,
    known: KnownVersion,
    definition: EndpointDefinition,
  ): Promise<StoredEndpoint | undefined>;
  remove(caller: Caller, id: string): Promise<void>;
  /** Changes endpoints of the same name, which keep their ids; all of it, or nothing. */
  import(caller: Caller, definitions: readonly EndpointDefinition[]): Promise<void>;
  /** Takes in no further changes. */
  close(): void;
}

interface StoreOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly events: Events;
}

const TOPIC = 'customEndpoints.changed';
const EVENT = 'database:customEndpoints:refresh';

/** Loads what is stored and keeps it current. */
export async function createEndpointStore(options: StoreOptions): Promise<EndpointStore> {
  const { database, bus } = options;
  let endpoints: readonly StoredEndpoint[] = [];
  let queue: Promise<void> = Promise.resolve();
  const listeners: (() => void | Promise<void>)[] = [];

  async function refreshNow(): Promise<void> {
    endpoints = sameWhereUnchanged(endpoints, await loadEndpoints(database));
    for (const listener of listeners) await listener();
  }

  /** Calls never overtake each other. */
  function refresh(): Promise<void> {
    const next = queue.then(refreshNow, refreshNow);
    queue = next.catch(() => undefined);
    return next;
  }

  const change = (
    caller: Caller,
    work: (transaction: Transaction) => Promise<void>,
  ): Promise<void> => changeOnce(options, refresh, caller, work);

  const live = (id: string): StoredEndpoint => found(endpoints.find(({ _id }) => _id === id));

  const stops = [bus.subscribe(TOPIC, refresh), bus.freshness.watch('endpoints', refresh)];
  await refresh();

  return {
    all: () => endpoints,
    byId: (id) => endpoints.find(({ _id }) => _id === id.toLowerCase()),
    onChange: (listener) => void listeners.push(listener),
    close() {
      for (const stop of stops) stop();
    },
    async create(caller, definition) {
      const id = newId();
      await change(caller, async (transaction) => {
        await transaction.query(insertEndpoint(id, definition));
      });
      return live(id);
    },
    async update(caller, known, definition) {
      let isLatest = false;
      // Where it was changed or deleted meanwhile, this node takes that in.
      await change(caller, async (transaction) => {
        const { rows } = await transaction.query(updateEndpoint(known, definition));
        isLatest = rows.length > 0;
      });
      const now = live(known.id);
      return isLatest ? now : undefined;
    },
    remove: (caller, id) =>
      change(caller, async (transaction) =>
        requireRow(await transaction.query(deleteEndpoint(id))),
      ),
    import: (caller, definitions) =>
      change(caller, async (transaction) => {
        await transaction.query(lockEndpointImport);
        for (const definition of definitions)
          await transaction.query(putEndpoint(newId(), definition));
      }),
  };
}

/** A transaction of its own, also where a request has one open: it must be committed before this node and the others take it in. */
const changeOnce = (
  { database, bus, events }: StoreOptions,
  refresh: () => Promise<void>,
  caller: Caller,
  work: (transaction: Transaction) => Promise<void>,
): Promise<void> =>
  database
    .outside(async () => {
      await database.transaction(async (transaction) => {
        await work(transaction);
        await events.emit(transaction, caller, { topic: EVENT });
      });
      await refresh();
      await bus.announce(TOPIC, {});
    })
    .catch(namedError);

/** The loaded endpoints, with the objects of before for those that have not changed. */
function sameWhereUnchanged(
  before: readonly StoredEndpoint[],
  loaded: readonly StoredEndpoint[],
): readonly StoredEndpoint[] {
  const keyOf = ({ _id, __v, damage = '' }: StoredEndpoint): string => `${_id}:${__v}:${damage}`;
  const known = new Map(before.map((endpoint) => [keyOf(endpoint), endpoint]));
  return loaded.map((endpoint) => known.get(keyOf(endpoint)) ?? endpoint);
}

function found(endpoint: StoredEndpoint | undefined): StoredEndpoint {
  if (!endpoint) throw databaseErrors.ENDPOINT_NOT_FOUND();
  return endpoint;
}

function requireRow({ rows }: { readonly rows: readonly unknown[] }): void {
  if (rows.length === 0) throw databaseErrors.ENDPOINT_NOT_FOUND();
}

/** A name that another endpoint has, also one that differs in case or punctuation only. */
function namedError(error: unknown): never {
  if (codeOf(error) !== '23505') throw error;
  const message =
    'another endpoint has this name, or one that differs in case and punctuation only';
  throw databaseErrors.ENDPOINT_EXISTS({
    errors: [{ path: 'name', rule: 'unique', message }],
    cause: error,
  });
}

/* Endpoints within the scopes of whoever writes them: one over the records of a module opens that module's data. */

export function scopedEndpointStore(
  store: EndpointStore,
  schemas: Pick<SchemaRegistry, 'get'>,
): EndpointStore {
  const requireAuthorityOver = (caller: Caller, ...names: readonly (string | undefined)[]): void =>
    requireAuthority(caller, ...names.flatMap((name) => schemaObject(schemas.get(name ?? ''))));
  const before = (id: string): string | undefined => store.byId(id)?.selectedSchemaName;
  return {
    ...store,
    async create(caller, definition) {
      requireAuthorityOver(caller, definition.selectedSchemaName);
      return store.create(caller, definition);
    },
    async update(caller, known, definition) {
      requireAuthorityOver(caller, before(known.id), definition.selectedSchemaName);
      return store.update(caller, known, definition);
    },
    async remove(caller, id) {
      requireAuthorityOver(caller, before(id));
      await store.remove(caller, id);
    },
    async import(caller, definitions) {
      const replaced = store
        .all()
        .filter(({ name }) => definitions.some((one) => one.name === name));
      requireAuthorityOver(
        caller,
        ...[...replaced, ...definitions].map(({ selectedSchemaName }) => selectedSchemaName),
      );
      await store.import(caller, definitions);
    },
  };
}
