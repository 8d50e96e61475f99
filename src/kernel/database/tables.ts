/** Which table a statement is about: what cannot be used there (locked, slow) must not hold up others. */
import type { Statement } from './database.ts';
import { statementKind } from './timings.ts';

/** Names of prepared statements whose tables are remembered. */
const MAX_NAMES = 5_000;

const byName = new Map<string, string>();

/** `app.Post`; empty for a statement about no table of a named schema. */
export function tableOf({ name, text }: Statement): string {
  if (name === undefined) return statementKind(text).table;
  const known = byName.get(name);
  if (known !== undefined) return known;
  // Names go with the schemas that they were made for.
  if (byName.size >= MAX_NAMES) byName.clear();
  const { table } = statementKind(text);
  byName.set(name, table);
  return table;
}
