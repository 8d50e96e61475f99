/** The SQL of places where users have signed in before. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

export interface DeviceRow {
  readonly userId: string;
  readonly device: string;
  readonly network: string;
  readonly address: string;
}

/** Notes a sign-in. `known`: somebody signed in from there before; `others`: at least from somewhere else. */
export async function noteDevice(database: Queryable, row: DeviceRow): Promise<{ readonly known: boolean; readonly others: boolean }> {
  const { rows } = await database.query<{ known: boolean; others: boolean }>(sql`
    with before as (select device, network from penstock.known_devices where user_id = ${row.userId}::uuid),
    noted as (
      insert into penstock.known_devices (user_id, device, network, address)
      values (${row.userId}::uuid, ${row.device}, ${row.network}, ${row.address})
      on conflict (user_id, device, network) do update set address = excluded.address, seen_at = now()
    )
    select coalesce(bool_or(device = ${row.device} and network = ${row.network}), false) as known, count(*) > 0 as others from before`);
  return rows[0] ?? { known: false, others: false };
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Whether the owner of an account has signed in from this address before. `name`: as at login, or the user's id. Asked
 * while an account is under attack, so each way to name it has its index.
 */
export const isKnownAddress = async (database: Queryable, name: string, address: string): Promise<boolean> =>
  (
    await database.query(sql`
      select 1 from "app"."User" u join penstock.known_devices d on d.user_id = u."_id"
      where (u."email" = ${name} or u."username" = ${name} or u."_id" = ${uuid.test(name) ? name : null}::uuid) and d.address = ${address}
      limit 1`)
  ).count > 0;

/** Forgets up to `limit` places that were not used for half a year; answers how many. */
export const purgeDevices = async (database: Queryable, limit: number): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.known_devices where ctid = any(array(
        select ctid from penstock.known_devices where seen_at < now() - interval '180 days' limit ${limit}::integer))`)
  ).count;
