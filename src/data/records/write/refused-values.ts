/** Among many records that are written at once: which one has the value that another has already, or leads to nothing. */
import { codeOf } from '../../../kernel/database/failures.ts';
import { PenstockError, type Problem, relocated } from '../../../kernel/errors.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { MappedColumn, TableMapping } from '../../schema/mapping/table-mapping.ts';
import { recordErrors } from '../errors.ts';
import { externalTableErrors } from '../external-table-errors.ts';
import { tableDefault } from '../sql/changed-rows.ts';
import type { ColumnValues } from './validate.ts';

/** A record as it was to be written. */
export interface WrittenRecord {
  /** Columns; those that a change leaves alone are not there. */
  readonly values: Readonly<Record<string, unknown>>;
  /** `docs.3.` */
  readonly place: string;
}

/** The same error at the place of the record that is refused, where it can be told. Anything else comes back as it is. */
export function violationAt(error: unknown, records: readonly WrittenRecord[]): unknown {
  if (!(error instanceof PenstockError)) return error;
  const isUnique = error.code === recordErrors.RECORD_NOT_UNIQUE.code;
  if (!isUnique && !isLinkToNothing(error)) return error;
  const columns = error.errors?.map(({ path }) => path) ?? [];
  const texts = violatingTexts(error.cause, columns.length);
  if (!texts) return error;
  const refused = records.filter(({ values }) =>
    columns.every(
      (column, i) => !Object.hasOwn(values, column) || isSame(values[column], texts[i] ?? ''),
    ),
  );
  // A change that sets none of the columns cannot be told from others.
  const named = refused.filter(({ values }) =>
    columns.some((column) => Object.hasOwn(values, column)),
  );
  // Of several new values that are the same the first is not the one too many.
  const place = named.at(isUnique && named.length > 1 ? 1 : 0)?.place;
  return place === undefined ? error : relocated(error, (path) => place + path);
}

const isLinkToNothing = ({ code, cause }: PenstockError): boolean =>
  code === recordErrors.RECORD_INVALID.code && codeOf(cause) === '23503';

/** The values that PostgreSQL names in its refusal, as text: `Key (a, b)=(1, 2) already exists.` */
function violatingTexts(cause: unknown, count: number): readonly string[] | undefined {
  const { detail } = (cause ?? {}) as { detail?: unknown };
  const found = typeof detail === 'string' ? /\)=\((.*)\)/s.exec(detail)?.[1] : undefined;
  if (found === undefined) return undefined;
  const texts = count === 1 ? [found] : found.split(', ');
  return texts.length === count ? texts : undefined;
}

function isSame(value: unknown, text: string): boolean {
  if (typeof value === 'number') return Number(text) === value;
  if (typeof value === 'boolean') return text === (value ? 't' : 'f');
  return (
    value === text ||
    (typeof value === 'string' && isoInstant.test(value) && Date.parse(text) === Date.parse(value))
  );
}

const isoInstant = /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/;

/* Which field a value does not fit in. PostgreSQL quotes the value, or names the domain, but never the column. */

type Mapped = Pick<CompiledSchema, 'tree'> & { readonly mapping: TableMapping };

interface Suspect {
  readonly field: string;
  readonly value: unknown;
  readonly column: MappedColumn;
}

/** The same refusal with the name of the field, where it can only be one; anything else comes back as it is. */
export function withInvalidField(schema: Mapped, row: ColumnValues, error: unknown): unknown {
  if (!(error instanceof PenstockError) || error.errors) return error;
  const kind = [externalTableErrors.CONSTRAINT_VIOLATED, recordErrors.RECORD_INVALID].find(
    ({ code }) => code === error.code,
  );
  const [found, ...others] = kind ? culprits(suspectsOf(schema, row), error.cause) : [];
  if (!kind || !found || others.length > 0) return error;
  const { digits, type } = found.column;
  const size = digits && type.name === 'numeric' ? `(${digits.precision}, ${digits.scale})` : '';
  const problem: Problem = {
    path: found.field,
    rule: 'type',
    message: `does not fit ${type.name}${size}`,
  };
  return kind({
    message: `${problem.path}: ${problem.message}`,
    errors: [problem],
    cause: error.cause,
  });
}

/** What is given for columns whose own types know more than the field does. */
function suspectsOf(
  { tree, mapping }: Mapped,
  { columns, values }: ColumnValues,
): readonly Suspect[] {
  return columns.flatMap(({ name }, i) => {
    const [column, value] = [mapping.columns[name], values[i]];
    if (!column || value === null || value === undefined || value === tableDefault) return [];
    return column.form !== 'plain' || tree.fields.get(name)?.kind === 'number'
      ? [{ field: name, value, column }]
      : [];
  });
}

function culprits(suspects: readonly Suspect[], cause: unknown): readonly Suspect[] {
  const { message = '', dataType } = cause as {
    readonly message?: string;
    readonly dataType?: string;
  };
  if (dataType !== undefined) return suspects.filter(({ column }) => column.type.name === dataType);
  if (suspects.length === 1) return suspects;
  const digits = violatedDigits(cause);
  if (digits) return overflowing(suspects, digits);
  return suspects.filter(
    ({ value }) =>
      value !== '' && ['string', 'number'].includes(typeof value) && message.includes(`"${value}"`),
  );
}

type Digits = NonNullable<MappedColumn['digits']>;

/** The size of the number that a value was too large for: `A field with precision 4, scale 2 must round to ...`, in any language. */
function violatedDigits(cause: unknown): Digits | undefined {
  const { code, detail } = (cause ?? {}) as { readonly code?: unknown; readonly detail?: unknown };
  if (code !== '22003' || typeof detail !== 'string') return undefined;
  const [precision, scale] = detail.match(/-?\d+/g) ?? [];
  return precision === undefined || scale === undefined
    ? undefined
    : { precision: Number(precision), scale: Number(scale) };
}

/** Of the columns of this size those whose value is too large. Tables that were imported before sizes were kept: of all numbers without one. */
function overflowing(
  suspects: readonly Suspect[],
  { precision, scale }: Digits,
): readonly Suspect[] {
  const sized = suspects.filter(
    ({ column: { digits } }) => digits?.precision === precision && digits.scale === scale,
  );
  const candidates =
    sized.length > 0
      ? sized
      : suspects.filter(({ column }) => !column.digits && column.type.name === 'numeric');
  const min = 10 ** (precision - scale) - 10 ** -scale / 2;
  const found = candidates.filter(({ value }) => Math.abs(Number(value)) >= min);
  // What is added to a number may be small.
  return found.length > 0 ? found : sized;
}
