/** Which processes run on this database: one row each, kept alive by a heartbeat. */
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';

export interface LiveNode {
  readonly id: string;
  /** It says that it receives bus messages. */
  readonly listening: boolean;
  /** Its last heartbeat; changes with each. */
  readonly seenAt: string;
}

export interface NodeRegistry {
  /** Writes the heartbeat. Answers true when another node noted that a message did not reach this one. */
  beat(listening: boolean): Promise<boolean>;
  /** Other nodes whose heartbeat is younger than `deadAfterMs`. */
  others(): Promise<readonly LiveNode[]>;
  /** Notes on each of these nodes that it missed a message; it finds out with its next heartbeat. */
  markMissed(ids: readonly string[]): Promise<void>;
  leave(): Promise<void>;
}

/** Milliseconds without a heartbeat after which a node counts as gone. */
export const deadAfterMs = 15_000;

export function createNodeRegistry(database: Database, nodeId: string): NodeRegistry {
  return {
    async beat(listening) {
      const { rows } = await database.query<{ missed: boolean }>(sql`
        with before as (select missed from penstock.nodes where node_id = ${nodeId} for update),
        beat as (
          insert into penstock.nodes (node_id, listening) values (${nodeId}, ${listening})
          on conflict (node_id) do update set seen_at = now(), listening = excluded.listening, missed = false
        ),
        buried as (delete from penstock.nodes where seen_at < now() - interval '1 hour' and node_id <> ${nodeId})
        select coalesce((select missed from before), false) as missed`);
      return rows[0]?.missed ?? false;
    },
    async others() {
      const { rows } = await database.query<LiveNode>(sql`
        select node_id as id, listening, seen_at::text as "seenAt" from penstock.nodes
        where node_id <> ${nodeId} and seen_at > now() - make_interval(secs => ${deadAfterMs / 1000})`);
      return rows;
    },
    async markMissed(ids) {
      await database.query(sql`update penstock.nodes set missed = true where node_id = any(${ids}::text[])`);
    },
    async leave() {
      await database.query(sql`delete from penstock.nodes where node_id = ${nodeId}`);
    },
  };
}
