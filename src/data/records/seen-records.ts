/** Records as they are when hooks are asked about them. */
import { system } from '../../kernel/caller.ts';
import { fieldTest, literal } from '../conditions/condition.ts';
import type { SchemaRegistry } from '../schema/registry/registry.ts';
import type { RecordStore } from './store.ts';

export interface LookParts {
  readonly store: RecordStore;
  readonly schemas: SchemaRegistry;
}

const asHooks = system('hooks');

export interface Seen {
  readonly id: string;
  readonly record: Readonly<Record<string, unknown>>;
  /** Undefined for tables that count no versions. */
  readonly version: number | undefined;
}

interface Asked {
  readonly schema: string;
  /** At most 1,000. */
  readonly ids: readonly string[];
  /** Those in the trash. */
  readonly deleted?: boolean;
}

/** The records as they are now, by id; those that are gone are left out. */
export async function look(
  { store, schemas }: LookParts,
  { schema, ids, deleted = false }: Asked,
): Promise<ReadonlyMap<string, Seen>> {
  const counts = schemas.get(schema)?.mapping === undefined;
  const filter = fieldTest('_id', { kind: 'in', right: literal(ids) });
  const json = await store.find(asHooks, schema, { filter, deleted, granted: true });
  const records = JSON.parse(json) as readonly { readonly _id: string; readonly __v?: number }[];
  return new Map(
    records.map((record) => [
      record._id,
      { id: record._id, record: { ...record }, version: counts ? record.__v : undefined },
    ]),
  );
}

/** However its id is spelled: the database reads some in more than one way. */
export async function lookAtOne(
  parts: LookParts,
  schema: string,
  id: string,
): Promise<Seen | undefined> {
  const [seen] = (await look(parts, { schema, ids: [id] })).values();
  return seen;
}

/** The records in the order of the ids; nothing where one of them is not there. */
export async function lookAtEach(
  parts: LookParts,
  schema: string,
  ids: readonly string[],
): Promise<readonly Seen[] | undefined> {
  const found = await look(parts, { schema, ids });
  const isMapped = parts.schemas.get(schema)?.mapping !== undefined;
  const list: Seen[] = [];
  for (const id of ids) {
    const seen =
      found.get(id) ??
      (isMapped ? await lookAtOne(parts, schema, id) : found.get(id.toLowerCase()));
    if (!seen) return undefined;
    list.push(seen);
  }
  return list;
}
