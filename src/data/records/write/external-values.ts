/** Values for the columns of a table of others: it fills in some by itself, and the key of a row stays what it is. */

import type { Problem } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { withoutEnd } from '../../../kernel/text.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { type KeyType, keyParts } from '../../schema/language/record-key.ts';
import { fieldValue, ownValue } from '../../schema/language/values.ts';
import type { MappedColumn, TableMapping } from '../../schema/mapping/table-mapping.ts';
import { type Assigned, tableDefault } from '../sql/changed-rows.ts';
import type { RecordInput } from '../store.ts';
import { type Column, type ColumnValues, validatorOf } from './validate.ts';

/** Where the values come from, and where problems are reported. */
interface Written {
  readonly input: RecordInput;
  /** In front of the names of fields: empty, or `docs.3.`. */
  readonly place: string;
  readonly problems: Problem[];
}

type Mapped = CompiledSchema & { readonly mapping: TableMapping };

/** Every column of a new row; what is not given takes the default of the field, else that of the table. */
export function newRow(schema: Mapped, { input, place, problems }: Written): ColumnValues {
  const columns = writable(schema, () => true);
  const values = columns.map((column) => {
    const given = ownValue(input, column.name);
    const mapped = schema.mapping.columns[column.name];
    if (given === undefined && column.field.default === undefined && mapped?.filled === 'default')
      return tableDefault;
    // A key that the table does not make, and that is one of ours.
    if (
      given === undefined &&
      mapped?.keyType === 'uuid' &&
      schema.mapping.key.includes(column.name)
    )
      return keyOrNothing(schema, column, mapped);
    const value = fieldValue(column.field, column.check, {
      given,
      place: place + column.name,
      problems,
    });
    if (isEmptyKey(schema, column.name, value))
      problems.push({ path: place + column.name, rule: 'minLength', message: emptyKey });
    return value;
  });
  return { columns, values };
}

/** A record needs an id that can stand in a path. Blanks at the end of texts of fixed length do not count. */
const isEmptyKey = ({ key, mapping }: Mapped, field: string, value: unknown): boolean =>
  key.length === 1 &&
  mapping.key[0] === field &&
  (key[0] === 'bpchar' ? typeof value === 'string' && value.trimEnd() === '' : value === '');

const emptyKey = 'is the key of the record and cannot be empty';

/** A UUID that is the whole key of a row, and refers to nothing, is made by the platform. */
const keyOrNothing = (
  { mapping }: Mapped,
  { name }: Column,
  { references }: MappedColumn,
): string | null =>
  mapping.key.length === 1 && mapping.key[0] === name && !references ? newId() : null;

/** Every column of a row but its key; `without` stays as it is. */
export function replacedRow(
  schema: Mapped,
  { input, place, problems }: Written,
  without: ReadonlySet<string> = new Set(),
): ColumnValues {
  const { columns } = schema.mapping;
  const requested = writable(
    schema,
    (name) => !schema.mapping.key.includes(name) && !without.has(name),
  );
  const values = requested.map(({ name, field, check }) => {
    const given = ownValue(input, name);
    if (given === undefined && field.default === undefined && columns[name]?.filled === 'default')
      return tableDefault;
    return fieldValue(field, check, { given, place: place + name, problems });
  });
  return { columns: requested, values };
}

/** The columns that a PATCH of a record names; the key must stay what it is. */
export function patchedRow(schema: Mapped, id: string, written: Written): ColumnValues {
  requireSameKey(schema, id, written);
  return changedRow(schema, written);
}

/** The columns that the input names, but for the key. */
export function changedRow(schema: Mapped, { input, place, problems }: Written): ColumnValues {
  const { columns, values } = validatorOf(schema).partial(input, place, problems);
  const settable = new Set(
    writable(schema, (name) => !schema.mapping.key.includes(name)).map(({ name }) => name),
  );
  const kept = columns
    .map((column, i) => [column, values[i]] as const)
    .filter(([{ name }]) => settable.has(name));
  return { columns: kept.map(([column]) => column), values: kept.map(([, value]) => value) };
}

function writable(schema: Mapped, requested: (field: string) => boolean): readonly Column[] {
  const { columns } = schema.mapping;
  return validatorOf(schema).columns.filter(
    ({ name }) => columns[name]?.filled !== 'always' && requested(name),
  );
}

/** A key that is given with a change must be the one that the row has: other records may refer to it. */
export function requireSameKey(
  schema: Mapped,
  id: string,
  { input, place, problems }: Written,
): void {
  const parts = keyParts(schema.key, id) ?? [];
  for (const [i, field] of schema.mapping.key.entries()) {
    const given = ownValue(input, field);
    const type = schema.key[i];
    if (given === undefined || (type && isSame(type, given, parts[i] ?? ''))) continue;
    problems.push({
      path: place + field,
      rule: 'immutable',
      message: 'is part of the key of the record and cannot be changed',
    });
  }
}

/** The wire has instants to the millisecond, and numbers in whatever form: what was read can be sent back. */
function isSame(type: KeyType, given: unknown, part: string): boolean {
  const text = String(given);
  switch (type) {
    case 'uuid':
      return text.toLowerCase() === part.toLowerCase();
    case 'numeric':
      return typeof given === 'number'
        ? given === Number(part)
        : plainDigits(text) === plainDigits(part);
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return new Date(text).getTime() === new Date(part).getTime();
    case 'bpchar':
      return text.trimEnd() === part;
    default:
      return text === part;
  }
}

/** Without zeros that mean nothing. */
const plainDigits = (text: string): string =>
  text.includes('.') ? withoutEnd(withoutEnd(text, '0'), '.') : text;

/** Values and placeholders of a statement whose first `before` values are others. */
export function placed(
  { columns, values }: ColumnValues,
  before: number,
): { readonly assigned: readonly Assigned[]; readonly values: readonly unknown[] } {
  const given: unknown[] = [];
  const assigned = columns.map(({ name, type }, i): Assigned => {
    const value = values[i];
    if (value === tableDefault) return [name, undefined];
    given.push(type === 'jsonb' && value !== null ? JSON.stringify(value) : value);
    return [name, `$${before + given.length}`];
  });
  return { assigned, values: given };
}

/** What of the values decides the text of a statement. */
export const valuesShape = (assigned: readonly Assigned[]): string =>
  assigned.map(([name, value]) => (value === undefined ? `${name}=` : name)).join();
