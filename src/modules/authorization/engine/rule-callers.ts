/** Whom rules about records let in, as far as they can be turned round: from the record to those whom its fields name. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { relationOf } from '../../../data/schema/language/field.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { isId } from '../../../kernel/ids.ts';
import type { ObjectRef } from '../model/grammar.ts';
import type { Name } from '../model/model.ts';
import { asksFacts, type RuleScope, recordRule, rulesBelow } from './record-rules.ts';

export interface RuleCallers {
  readonly ids: readonly string[];
  /** Rules ask of callers what cannot be turned round. */
  readonly incomplete: boolean;
}

/** Who is named in fields of the objects that rules compare with the caller. */
export async function ruleCallers(
  { model, database }: RuleScope,
  goal: Name,
  objects: readonly ObjectRef[],
  most: number,
): Promise<RuleCallers> {
  const asked = [...rulesBelow(model, goal)].flatMap(([type, rules]) => {
    const ids = objects.filter((o) => o.type === type && isId(o.id)).map((o) => o.id);
    const records = [...rules].flatMap((of) => recordRule(model, type, of) ?? []);
    return ids.length === 0 ? [] : records.map(({ schema, rule }) => ({ schema, rule, ids }));
  });
  const compared = asked.map((one) => ({ ...one, ...one.rule.comparedWith('caller.id') }));
  const named: string[] = [];
  for (const { schema, ids, fields } of compared)
    for (const field of fields)
      named.push(...(await valuesIn(database, { schema, field, ids, most })));
  const incomplete =
    named.length > most || compared.some(({ only, rule }) => !only || asksFacts(rule));
  return { ids: [...new Set(named)].slice(0, most), incomplete };
}

interface FieldValues {
  readonly schema: CompiledSchema;
  readonly field: string;
  readonly ids: readonly string[];
  readonly most: number;
}

async function valuesIn(
  database: Queryable,
  { schema, field, ids, most }: FieldValues,
): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string | null }>({
    text: `select ${valueText(schema, field)} as id from ${schema.rows} r where r."_id" = any($1::uuid[]) limit $2::bigint`,
    values: [ids, most + 1],
  });
  return rows.flatMap(({ id }) => id ?? []);
}

function valueText({ tree }: CompiledSchema, name: string): string {
  const field = tree.fields.get(name);
  const column = `r."${name}"`;
  if (field?.kind !== 'array') return `${column}::text`;
  return relationOf(field)
    ? `unnest(${column})::text`
    : `jsonb_array_elements_text(case jsonb_typeof(${column}) when 'array' then ${column} end)`;
}
