/** Tuples about records and users that do not exist: of types that are schemas, because only there anybody can know. */

import { lockable } from '../../../data/records/sql/row-id.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { resourceText, subjectText, uuidOf } from '../tuple-sql.ts';

export interface Orphan {
  readonly id: string;
  /** `subject#relation@resource`. */
  readonly tuple: string;
  /** Which side does not exist. */
  readonly missing: 'subject' | 'resource';
}

export interface OrphanPage {
  readonly orphans: readonly Orphan[];
  /** Id of the last tuple that was looked at; absent when that was the last of all. */
  readonly last: string | undefined;
}

/** Tables of others may have other ids; nothing is written about their records. */
const hasUuids = ({ key }: CompiledSchema): boolean => key.length === 1 && key[0] === 'uuid';

/** Looks at `window` tuples after `after`, in the order of their ids, each by one index lookup per side. */
export async function findOrphans(
  database: Queryable,
  schemas: SchemaRegistry,
  { after, window }: { after: string; window: number },
): Promise<OrphanPage> {
  const gone = (side: 'subject' | 'resource'): string => {
    const cases = schemas
      .all()
      .filter(hasUuids)
      .map((schema) => {
        const { name } = schema;
        const record = `select 1 from ${lockable(schema)} r where r."_id" = ${uuidOf(`t.${side}_id`)}`;
        return `when ${literalOf(name, 'text')} then not exists (${record})`;
      });
    return cases.length === 0 ? 'false' : `(t.${side}_id <> '*' and case t.${side}_type ${cases.join(' ')} else false end)`;
  };
  const text = `with page as materialized (select * from penstock.tuples where id > $1 order by id limit $2),
    judged as (select t.*, ${gone('resource')} as resource_gone, ${gone('subject')} as subject_gone from page t)
    select coalesce(json_agg(json_build_object(
        'id', t.id, 'tuple', ${subjectText('t')} || '#' || t.relation || '@' || ${resourceText('t')},
        'missing', case when t.resource_gone then 'resource' else 'subject' end) order by t.id)
        filter (where t.resource_gone or t.subject_gone), '[]') as orphans,
      count(*)::int as seen, (select id from page order by id desc limit 1) as last
    from judged t`;
  const { rows } = await database.query<{ orphans: readonly Orphan[]; seen: number; last: string | null }>({
    text,
    values: [after, window],
  });
  const [row] = rows;
  return { orphans: row?.orphans ?? [], last: row && row.seen === window ? (row.last ?? undefined) : undefined };
}
