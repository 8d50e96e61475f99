/**
 * Which processes run on this database: one row each, kept alive by a heartbeat. The heartbeat is a
 * lease: until `leaseMs` after it a node may answer from memory, and others count on it that it does
 * not do so longer. Its end is reckoned by the clock of the database alone.
 */
import type { Database } from '../database/database.ts';
import { healthSql, identitySql } from '../database/sql.ts';
import type { VersionReading } from '../freshness/versions.ts';

export interface OtherNode {
  readonly id: string;
  /** It receives bus messages and its lease runs: worth waiting for. */
  readonly hears: boolean;
}

export interface Heartbeat extends VersionReading {
  /** Another node noted that a message did not reach this one, or nobody knew this one any more. */
  readonly missed: boolean;
}

export interface NodeRegistry {
  /** Renews the lease; `listening`: whether this node receives bus messages. */
  beat(listening: boolean): Promise<Heartbeat>;
  others(): Promise<readonly OtherNode[]>;
  /**
   * Notes on each of these nodes that it missed a message, which it finds out with its next heartbeat.
   * Answers the milliseconds until the last of their leases has ended.
   */
  markMissed(ids: readonly string[]): Promise<number>;
  leave(): Promise<void>;
}

/** Milliseconds for which a heartbeat lets a node answer from memory. */
export const leaseMs = 1_000;
/** Milliseconds without a heartbeat after which a node is struck from the list. If it comes back, it starts anew. */
const deadAfterMs = 5_000;

export function createNodeRegistry(database: Database, nodeId: string): NodeRegistry {
  return {
    async beat(listening) {
      // `seen_at` is later than the moment from which the node itself reckons its lease.
      const { rows } = await database.query<Heartbeat>(healthSql`
        with before as (select missed from penstock.nodes where node_id = ${nodeId} for update),
        beat as (
          insert into penstock.nodes (node_id, listening, seen_at) values (${nodeId}, ${listening}, clock_timestamp())
          on conflict (node_id) do update set seen_at = clock_timestamp(), listening = excluded.listening, missed = false
        ),
        buried as (
          delete from penstock.nodes
          where node_id <> ${nodeId} and seen_at < now() - ${deadAfterMs}::integer * interval '1 millisecond'
        )
        select coalesce((select missed from before), true) as missed, pg_postmaster_start_time()::text as server,
          (select json_object_agg(topic, version) from penstock.versions) as versions`);
      const [heartbeat] = rows;
      if (!heartbeat) throw new Error('The database did not answer the heartbeat');
      return heartbeat;
    },
    async others() {
      const { rows } = await database.query<OtherNode>(identitySql`
        select node_id as id, listening and seen_at > clock_timestamp() - ${leaseMs}::integer * interval '1 millisecond' as hears
        from penstock.nodes
        where node_id <> ${nodeId} and seen_at > clock_timestamp() - ${deadAfterMs}::integer * interval '1 millisecond'`);
      return rows;
    },
    async markMissed(ids) {
      const { rows } = await database.query<{ remaining: number }>(identitySql`
        update penstock.nodes set missed = true where node_id = any(${ids}::text[])
        returning case when listening
          then ${leaseMs}::float8 - extract(epoch from clock_timestamp() - seen_at)::float8 * 1000 else 0 end as remaining`);
      return Math.max(0, ...rows.map(({ remaining }) => remaining));
    },
    async leave() {
      await database.query(healthSql`delete from penstock.nodes where node_id = ${nodeId}`);
    },
  };
}
