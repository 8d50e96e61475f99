/** Fields that a record must have and an endpoint that creates one gives no value: each call of it would fail. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { missingValue } from '../../../../data/schema/language/values.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { type EndpointDefinition, endpointOperation } from './definition.ts';

export function requiredProblems({ operation, assignments }: EndpointDefinition, schema: CompiledSchema): readonly Problem[] {
  if (operation !== endpointOperation.post) return [];
  const assigned = new Set(assignments.map(({ schemaField }) => schemaField));
  return [...schema.tree.fields].flatMap(([name, field]) => {
    const missing: Problem[] = [];
    if (!assigned.has(name) && !isFilledIn(schema, name)) missingValue(field, name, missing);
    if (missing.length === 0) return [];
    const paths = missing.map(({ path }) => `"${path}"`).join(', ');
    return [{ path: 'assignments', rule: 'required', message: `${paths} of ${schema.name} is required and has no default: assign it` }];
  });
}

/** The owner is whoever calls; a table of others fills in what it says, and a key that is one of ours is made. */
function isFilledIn({ modelOptions, mapping }: CompiledSchema, name: string): boolean {
  if (modelOptions.conduit.owner?.field === name) return true;
  const column = mapping?.columns[name];
  if (!mapping || !column) return false;
  const isOwnKey = mapping.key.length === 1 && mapping.key[0] === name && column.keyType === 'uuid' && !column.references;
  return column.filled !== 'never' || isOwnKey;
}
