/** Tests of a value that is a column of its own. */
import { columnType, type Field } from '../../schema/field.ts';
import type { Parameters } from '../parameters.ts';
import type { BoundTest } from './bind.ts';
import { symbolOf, textTest } from './operators.ts';

export interface ColumnValue {
  /** Column, with its table. */
  readonly value: string;
  readonly field: Field;
  readonly parameters: Parameters;
}

export type ValueTest = Exclude<BoundTest, { readonly kind: 'field' }>;

export function columnTest(column: ColumnValue, test: ValueTest): string {
  const { value, field, parameters } = column;
  switch (test.kind) {
    case 'exists':
      return `${value} is not null`;
    case 'like':
    case 'matches':
    case 'search':
      return textTest(value, test, parameters);
    case 'in':
      return anyOf(column, test.values, test.orNull);
    default:
      if (test.value === null) return `${value} is null`;
      if (field.kind === 'array') return listEqual(column, test.value);
      return `${value} ${symbolOf[test.kind]} ${parameters.next(test.value)}::${castOf(field, [test.value])}`;
  }
}

function anyOf({ value, field, parameters }: ColumnValue, values: readonly unknown[], orNull: boolean): string {
  const list = parameters.next(values);
  const text = field.kind === 'array' ? `${value} && ${list}::uuid[]` : `${value} = any(${list}::${castOf(field, values)}[])`;
  return orNull ? `(${text} or ${value} is null)` : text;
}

/** A list of relations: the list itself, or one of its elements. */
const listEqual = ({ value, parameters }: ColumnValue, wanted: unknown): string =>
  Array.isArray(wanted) ? `${value} = ${parameters.next(wanted)}::uuid[]` : `${value} @> array[${parameters.next(wanted)}::uuid]`;

/** The type as which values are compared: one that an index of the column serves, and that can hold them. */
function castOf(field: Field, values: readonly unknown[]): string {
  const type = columnType(field);
  if (type !== 'integer' && type !== 'bigint') return type;
  return values.every((value) => typeof value === 'string' || Number.isSafeInteger(value)) ? 'bigint' : 'numeric';
}
