/**
 * Fields and values of records may name what is not there (any more): ids in lists are kept when their record goes, and
 * rules compare ordinary texts. Lists name only what somebody can be or use (decision 509).
 */
import { allRows } from '../../../data/records/sql/row-id.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import { uuidOf } from '../tuple-sql.ts';
import type { RuleScope } from './record-rules.ts';
import { storedTable } from './tuple-source.ts';

/**
 * Those ids of a type that are records, in the trash too, or stand in a stored tuple: stored tuples go with their records,
 * and a type may share its name with a schema. All of them where the type has no records of the platform.
 */
export async function presentObjects(
  { model, database }: Pick<RuleScope, 'model' | 'database'>,
  type: string,
  ids: readonly string[],
): Promise<readonly string[]> {
  const schema = model.schemaOf(type);
  if (!schema || schema.mapping || ids.length === 0) return ids;
  const stands = (side: 'subject' | 'resource'): string =>
    `exists (select 1 from ${storedTable} t where t.${side}_type = (select $2::text) and t.${side}_id = x.id)`;
  const text = `select x.id from unnest((select $1::text[])) with ordinality x(id, n)
      where exists (select 1 from ${allRows(schema)} r where r."_id" = ${uuidOf('x.id')})
        or ${stands('subject')} or ${stands('resource')} order by x.n`;
  const { rows } = await database.query<{ id: string }>({
    ...{ text, name: statementName(text), values: [ids, type] },
  });
  return rows.map(({ id }) => id);
}
