/** Parts of nested objects that were taken out of the schema: what is written over such an object keeps them, so that they can come back. */
import { identifier } from '../database/sql.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import type { Field } from '../schema/field.ts';
import { literalOf } from '../schema/literal.ts';

/**
 * A new value of a column of the rows `t0`, with the dropped parts of the stored one. An object that becomes null loses
 * them, and so do elements of lists, which have no identity.
 */
export function withKeptParts({ tree, droppedFields }: CompiledSchema, column: string, value: string): string {
  const top = tree.fields.get(column);
  if (top?.kind !== 'object') return value;
  const stored = `t0.${identifier(column)}`;
  return droppedFields
    .map((path) => path.split('.'))
    .filter(([name, ...rest]) => name === column && leadsThroughObjects(top, rest))
    .reduce((whole, [, ...rest]) => {
      const part = literalOf(rest, 'text[]');
      return `jsonb_set_lax(${whole}, ${part}, ${stored} #> ${part}, true, 'return_target')`;
    }, value);
}

/** True for a path to something that is missing in an object that is there. */
function leadsThroughObjects(field: Field | undefined, [name, ...rest]: readonly string[]): boolean {
  if (field?.kind !== 'object' || name === undefined) return false;
  return rest.length === 0 || leadsThroughObjects(field.fields.get(name), rest);
}
