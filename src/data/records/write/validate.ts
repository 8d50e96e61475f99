/** From the input of a writer to column values. All problems are reported at once, with their places. */

import type { Queryable } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { Problem } from '../../../kernel/errors.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import {
  type ColumnType,
  columnType,
  type Field,
  type ObjectField,
} from '../../schema/language/field.ts';
import {
  type Check,
  checkerOf,
  fieldValue,
  missingValue,
  ownValue,
} from '../../schema/language/values.ts';
import { invalidRecord } from '../errors.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { live } from '../sql/row-id.ts';
import type { RecordInput } from '../store.ts';
import { runWrite, type WriteContext } from './write-context.ts';

/* Stored values of nested objects, locked until the transaction that changes them ends. */

interface StoredNested {
  readonly id: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Rows that are missing, or may not be changed, are left out. */
export async function storedNested(
  context: WriteContext,
  requested: { readonly ids: readonly string[]; readonly names: readonly string[] },
  transaction: Queryable,
): Promise<readonly StoredNested[]> {
  const { schema, dependencies, predicate } = context;
  const { ids, names } = requested;
  const shape = `nested|${names.join()}|${predicate?.shape ?? ''}`;
  const statement = dependencies.plans.statement(
    { schema, shape, values: [ids], dynamic: predicate !== undefined },
    (parameters) => {
      const columns = names.map((name) => `t0.${identifier(name)}`).join(', ');
      const where = `t0."_id" = any($1::uuid[])${live(schema, 't0')}${restriction(predicate, 't0', parameters)}`;
      return `select t0."_id", ${columns} from ${schema.table} t0 where ${where} order by t0."_id" for update`;
    },
  );
  const rows = await runWrite<Record<string, unknown>>(context, statement, transaction);
  return rows.map(({ _id, ...values }) => ({ id: String(_id), values }));
}

export interface Column {
  readonly name: string;
  readonly field: Field;
  readonly type: ColumnType;
  readonly check: Check;
}

/** Some columns of one record, in the order of the schema. */
export interface ColumnValues {
  readonly columns: readonly Column[];
  readonly values: readonly unknown[];
}

export interface RecordValidator {
  /** Every column, in the order of the schema. */
  readonly columns: readonly Column[];
  /** All columns but those named in `without`; what is missing takes its default or null. */
  whole(
    input: RecordInput,
    place: string,
    problems: Problem[],
    without?: ReadonlySet<string>,
  ): ColumnValues;
  /** Only the columns that the input names. Nested objects are not among them: see `nested`. */
  partial(input: RecordInput, place: string, problems: Problem[]): ColumnValues;
  /** Nested objects that the input gives: they are merged with what is stored. */
  nested(input: RecordInput): readonly {
    readonly name: string;
    readonly field: ObjectField;
    readonly given: Record<string, unknown>;
  }[];
}

const validators = new WeakMap<CompiledSchema, RecordValidator>();

/** The validator of a schema, made once. */
export function validatorOf(schema: CompiledSchema): RecordValidator {
  let validator = validators.get(schema);
  if (!validator) {
    validator = createValidator(schema);
    validators.set(schema, validator);
  }
  return validator;
}

const isNested = (field: Field, value: unknown): field is ObjectField =>
  field.kind === 'object' && typeof value === 'object' && value !== null && !Array.isArray(value);

function createValidator({ tree }: CompiledSchema): RecordValidator {
  const columns: Column[] = [...tree.fields].map(([name, field]) => ({
    name,
    field,
    type: columnType(field),
    check: checkerOf(field),
  }));
  return {
    columns,
    whole(input, place, problems, without) {
      const requested = without ? columns.filter(({ name }) => !without.has(name)) : columns;
      const values = requested.map((column) =>
        columnValue(column, ownValue(input, column.name), place + column.name, problems),
      );
      return { columns: requested, values };
    },
    partial(input, place, problems) {
      const given = columns.filter(({ name, field }) => {
        const value = ownValue(input, name);
        return value !== undefined && !isNested(field, value);
      });
      const values = given.map((column) =>
        columnValue(column, ownValue(input, column.name), place + column.name, problems),
      );
      return { columns: given, values };
    },
    nested: (input) =>
      columns.flatMap(({ name, field }) => {
        const given = ownValue(input, name);
        return isNested(field, given)
          ? [{ name, field, given: given as Record<string, unknown> }]
          : [];
      }),
  };
}

const columnValue = (
  { field, check }: Column,
  given: unknown,
  place: string,
  problems: Problem[],
): unknown => fieldValue(field, check, { given, place, problems });

export const namesOf = ({ columns }: ColumnValues): string[] => columns.map(({ name }) => name);

/** Values as the driver takes them: jsonb as text; null is SQL null. */
export const encoded = ({ columns, values }: ColumnValues): unknown[] =>
  values.map((value, i) =>
    columns[i]?.type === 'jsonb' && value !== null ? JSON.stringify(value) : value,
  );

/** Throws all problems as one 400. */
export function requireValid(problems: readonly Problem[]): void {
  if (problems.length > 0) throw invalidRecord(problems);
}

/**
 * What a nested object becomes when a PATCH gives a part of it: the given fields change, the others
 * (dropped ones included) stay. The result is valid as a whole, or problems are added.
 */
export function mergeNested(
  field: ObjectField,
  stored: unknown,
  {
    given,
    place,
    problems,
  }: {
    readonly given: Record<string, unknown>;
    readonly place: string;
    readonly problems: Problem[];
  },
): Record<string, unknown> {
  const isObject = typeof stored === 'object' && stored !== null && !Array.isArray(stored);
  const merged: Record<string, unknown> = isObject ? { ...stored } : {};
  for (const [name, child] of field.fields) {
    const value = ownValue(given, name);
    const path = `${place}.${name}`;
    if (value === undefined) {
      if (merged[name] === undefined || (merged[name] === null && child.required))
        merged[name] = missingValue(child, path, problems);
    } else if (isNested(child, value)) {
      merged[name] = mergeNested(child, merged[name], {
        given: value as Record<string, unknown>,
        place: path,
        problems,
      });
    } else {
      merged[name] = fieldValue(child, checkerOf(child), { given: value, place: path, problems });
    }
  }
  return merged;
}
