/** What a changing statement tells about rows that it led elsewhere (placement.ts). */
import { identifier } from '../../../kernel/database/sql.ts';

/** What a statement that changes the rows `o` to `r` (changed-rows.ts, `compare`) answers about them. */
export interface MovedRows {
  readonly moved?: readonly string[] | null;
}

/** `moved`: the ids of the rows that are elsewhere now, as a column of the answer. */
export const movedColumn = (compared: readonly string[]): string => {
  const differs = compared
    .map(identifier)
    .map((column) => `o.${column} is distinct from r.${column}`);
  return `(select array_agg(r."_id"::text) from r join o on o."_id" = r."_id" where ${differs.join(' or ')}) as moved`;
};
