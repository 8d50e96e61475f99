/** Values that stand for all values of a type, to find out at design time what would never fit. */
import type { Field } from '../../../../data/schema/language/field.ts';
import type { EndpointInput, InputType } from './definition.ts';

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
