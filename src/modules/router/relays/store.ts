/** The SQL of event relays. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

/** What an operator says of a relay. */
export interface RelayDefinition {
  readonly name: string;
  readonly notes: string | null;
  readonly active: boolean;
  /** A topic, or the beginning of one before a star. */
  readonly busEvent: string;
  readonly socketEvent: string;
  /** With `permission`: what subscribers have to be allowed to do, and with what. */
  readonly resourceType: string | null;
  /** Where an event says which resource it is about: a path in it. */
  readonly resourceIdPath: string | null;
  readonly permission: string | null;
  /** JSON with placeholders. */
  readonly messageTemplate: unknown;
}

export interface RelayRow extends RelayDefinition {
  readonly _id: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `id as "_id", name, notes, active, bus_event as "busEvent", socket_event as "socketEvent",
  resource_type as "resourceType", resource_id_path as "resourceIdPath", permission, message_template as "messageTemplate",
  created_at as "createdAt", updated_at as "updatedAt"`;

/** In the order in which they came. */
export async function listRelays(
  database: Queryable,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly relays: readonly RelayRow[]; readonly count: number }> {
  const { rows } = await database.query<RelayRow>({
    text: `select ${columns} from penstock.event_relays order by id limit $1 offset $2`,
    values: [limit, skip],
  });
  const total = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from penstock.event_relays`,
  );
  return { relays: rows, count: total.rows[0]?.count ?? 0 };
}

export const findRelay = async (database: Queryable, id: string): Promise<RelayRow | undefined> =>
  (
    await database.query<RelayRow>({
      text: `select ${columns} from penstock.event_relays where id = $1`,
      values: [id],
    })
  ).rows[0];

/** Reads for a change: nobody else changes it until the transaction ends. */
export const lockRelay = async (
  transaction: Queryable,
  id: string,
): Promise<RelayRow | undefined> =>
  (
    await transaction.query<RelayRow>({
      text: `select ${columns} from penstock.event_relays where id = $1 for update`,
      values: [id],
    })
  ).rows[0];

const valuesOf = (id: string, relay: RelayDefinition): readonly unknown[] => [
  id,
  relay.name,
  relay.notes,
  relay.active,
  relay.busEvent,
  relay.socketEvent,
  relay.resourceType,
  relay.resourceIdPath,
  relay.permission,
  relay.messageTemplate === null ? null : JSON.stringify(relay.messageTemplate),
];

/** A name that is taken is refused by the database (23505). */
export async function putRelay(
  database: Queryable,
  id: string,
  relay: RelayDefinition,
): Promise<RelayRow> {
  const { rows } = await database.query<RelayRow>({
    text: `insert into penstock.event_relays
        (id, name, notes, active, bus_event, socket_event, resource_type, resource_id_path, permission, message_template)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb)
      on conflict (id) do update set name = excluded.name, notes = excluded.notes, active = excluded.active,
        bus_event = excluded.bus_event, socket_event = excluded.socket_event, resource_type = excluded.resource_type,
        resource_id_path = excluded.resource_id_path, permission = excluded.permission,
        message_template = excluded.message_template, updated_at = now()
      returning ${columns}`,
    values: valuesOf(id, relay),
  });
  const [row] = rows;
  if (!row) throw new Error('A relay was not stored');
  return row;
}

export const deleteRelay = async (database: Queryable, id: string): Promise<void> => {
  await database.query(sql`delete from penstock.event_relays where id = ${id}`);
};
