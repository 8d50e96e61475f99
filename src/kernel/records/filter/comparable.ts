/** A field as an SQL value of its natural type, so that two fields can be compared wherever they stand. */
import { columnType } from '../../schema/field.ts';
import { booleanOf, numberOf, textOf, wideNumber } from './json-test.ts';
import type { Target } from './target.ts';

export function comparable({ top, field }: Target, value: string): string {
  if (columnType(top) !== 'jsonb') return value;
  switch (field.kind) {
    case 'number':
      return field.storage === 'bigint' || field.storage === 'numeric' ? wideNumber(value) : numberOf(value);
    case 'boolean':
      return booleanOf(value);
    case 'date':
      return `${textOf(value)}::timestamptz`;
    case 'objectId':
    case 'relation':
      return `${textOf(value)}::uuid`;
    default:
      return textOf(value);
  }
}
