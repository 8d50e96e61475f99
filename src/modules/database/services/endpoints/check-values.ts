/** Values that stand for all values of a type, to find out at design time what would never fit. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Field } from '../../../../data/schema/language/field.ts';
import { missingValue } from '../../../../data/schema/language/values.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import {
  type EndpointDefinition,
  type EndpointInput,
  endpointOperation,
  type InputType,
} from './definition.ts';

const sampleId = '00000000-0000-7000-8000-000000000000';
const sampleDate = '2026-01-31T12:00:00.000Z';

/** Ids in tables of others (kernel/schema/mapping/key.ts). */
const otherIds = ['1', '2026-01-31', '2026-01-31T12:00:00.000000Z', 'true'];

/** A text may be the text form of a date or an id. JSON may be anything: there is nothing to find out. */
function samplesOfType(type: InputType): readonly unknown[] | undefined {
  switch (type) {
    case 'String':
      return ['text', sampleDate, sampleId, ...otherIds];
    case 'Number':
      return [1];
    case 'Boolean':
      return [true];
    case 'Date':
      return [sampleDate];
    case 'ObjectId':
    case 'Relation':
      return [sampleId];
    case 'JSON':
    case 'Vector':
      return undefined;
  }
}

export function samplesOfInput({ type, array }: EndpointInput): readonly unknown[] | undefined {
  const samples = samplesOfType(type);
  return array ? samples?.map((sample) => [sample]) : samples;
}

export function samplesOfField(field: Field): readonly unknown[] | undefined {
  switch (field.kind) {
    case 'string':
      return samplesOfType('String');
    case 'number':
      return samplesOfType('Number');
    case 'boolean':
      return samplesOfType('Boolean');
    case 'date':
      return samplesOfType('Date');
    case 'objectId':
    case 'relation':
      return samplesOfType('ObjectId');
    case 'array':
      return samplesOfField(field.items)?.map((sample) => [sample]);
    default:
      return undefined;
  }
}

/* Fields that a record must have and an endpoint that creates one gives no value: each call of it would fail. */

export function requiredProblems(
  { operation, assignments }: EndpointDefinition,
  schema: CompiledSchema,
): readonly Problem[] {
  if (operation !== endpointOperation.post) return [];
  const assigned = new Set(assignments.map(({ schemaField }) => schemaField));
  return [...schema.tree.fields].flatMap(([name, field]) => {
    const missing: Problem[] = [];
    if (!assigned.has(name) && !isFilledIn(schema, name)) missingValue(field, name, missing);
    if (missing.length === 0) return [];
    const paths = missing.map(({ path }) => `"${path}"`).join(', ');
    return [
      {
        path: 'assignments',
        rule: 'required',
        message: `${paths} of ${schema.name} is required and has no default: assign it`,
      },
    ];
  });
}

/** The owner is whoever calls; a table of others fills in what it says, and a key that is one of ours is made. */
function isFilledIn({ modelOptions, mapping }: CompiledSchema, name: string): boolean {
  if (modelOptions.conduit.owner?.field === name) return true;
  const column = mapping?.columns[name];
  if (!mapping || !column) return false;
  const isOwnKey =
    mapping.key.length === 1 &&
    mapping.key[0] === name &&
    column.keyType === 'uuid' &&
    !column.references;
  return column.filled !== 'never' || isOwnKey;
}
