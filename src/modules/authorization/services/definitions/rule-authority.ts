/**
 * Rules about fields that no grant shows. Who writes definitions may let anybody read records, and sees by that what readers
 * see. A rule over a hidden field, or one for operators, is decided by what stands in it, and checks tell the decision: bit
 * by bit it tells the value to a credential that does not reach the records themselves.
 */

import { RuleError } from '../../../../data/rules/syntax.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { type Field, readRuleOf } from '../../../../data/schema/language/field.ts';
import { hasAuthority, requireAuthority, schemaObject } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { rulesIn, typedRule } from '../../engine/record-rules.ts';
import { type Definition, isFromField } from '../../model/definition.ts';
import type { RecordRule } from '../../model/expression.ts';
import { type DefinitionContent, validDefinitions } from './stored-definition.ts';

interface Asked {
  readonly content: DefinitionContent;
  /** What is in force. */
  readonly before: DefinitionContent | undefined;
}

/** Throws 403 where the definition asks more of such fields than before, and the caller does not reach the schema. */
export function requireRuleAuthority(
  caller: Caller,
  schema: CompiledSchema | undefined,
  { content, before }: Asked,
): void {
  if (!schema || caller.kind !== 'admin' || caller.scopes === undefined) return;
  const objects = schemaObject(schema);
  if (objects.every((object) => hasAuthority(caller, object))) return;
  const visible = visibleFields(schema.tree.fields);
  const view = { ...schema, tree: { ...schema.tree, fields: visible } };
  const known = new Set(before ? askedOf(before) : []);
  const [definition] = validDefinitions([content]);
  const asksMore =
    rulesOf(definition).some((rule) => !known.has(rule.text) && !isSound(view, rule)) ||
    fieldsTaken(content).some((field) => !known.has(`from ${field}`) && !visible.has(field));
  if (asksMore) requireAuthority(caller, ...objects);
}

const rulesOf = (definition: Definition | undefined): readonly RecordRule[] =>
  [...(definition?.actions.values() ?? [])].flatMap(rulesIn);

const fieldsTaken = ({ relations }: DefinitionContent): readonly string[] =>
  Object.values(relations).flatMap((relation) => (isFromField(relation) ? [relation.from] : []));

function isSound(schema: CompiledSchema, rule: RecordRule): boolean {
  try {
    typedRule(schema, rule);
    return true;
  } catch (error) {
    if (error instanceof RuleError) return false;
    throw error;
  }
}

/** Texts of rules, and fields that are relations. */
const askedOf = (content: DefinitionContent): readonly string[] => [
  ...rulesOf(validDefinitions([content])[0]).map(({ text }) => text),
  ...fieldsTaken(content).map((field) => `from ${field}`),
];

/** Those that are shown to readers, or to some. */
function visibleFields(fields: ReadonlyMap<string, Field>): ReadonlyMap<string, Field> {
  return new Map(
    [...fields]
      .filter(([, field]) => !field.hidden && readRuleOf(field).kind !== 'admin')
      .map(([name, field]) => [name, visibleParts(field)]),
  );
}

function visibleParts(field: Field): Field {
  if (field.kind === 'array') return { ...field, items: visibleParts(field.items) };
  return field.kind === 'object' ? { ...field, fields: visibleFields(field.fields) } : field;
}
