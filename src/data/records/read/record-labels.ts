/** What people call records: for answers that are read by people. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { isId } from '../../../kernel/ids.ts';
import { cutText } from '../../../kernel/text.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';

/** Fields that are names where they are text, the first that has a value. */
const nameFields = ['displayName', 'name', 'title', 'label', 'username', 'email'];
/** Characters of a name that are shown. */
const MOST_SHOWN = 80;

/** Names by id; records without one are left out. `first`: fields that come before the usual ones. */
export async function recordLabels(
  database: Queryable,
  schema: CompiledSchema,
  ids: readonly string[],
  first: Iterable<string> = [],
): Promise<ReadonlyMap<string, string>> {
  const known = ids.filter(isId);
  const fields = [...new Set([...first, ...nameFields])].filter((name) => {
    const field = schema.tree.fields.get(name);
    return field?.kind === 'string' && !field.hidden;
  });
  if (known.length === 0 || fields.length === 0 || schema.mapping) return new Map();
  const names = fields.map((name) => `nullif(r.${identifier(name)}, '')`).join(', ');
  const text = `select x.id, x.label from (select r."_id"::text as id, coalesce(${names}) as label from ${schema.rows} r
    where r."_id" = any($1::uuid[])) x where x.label is not null`;
  const { rows } = await database.query<{ id: string; label: string }>({ text, values: [known] });
  return new Map(rows.map(({ id, label }) => [id, cutText(label, MOST_SHOWN)]));
}
