/** Which field a value does not fit in. PostgreSQL quotes the value, or names the domain, but never the column. */
import { PenstockError, type Problem } from '../../errors.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import type { MappedColumn, TableMapping } from '../../schema/mapping/mapping.ts';
import { recordErrors } from '../errors.ts';
import type { ColumnValues } from '../validate.ts';
import { mappedErrors } from './errors.ts';
import { tableDefault } from './rows.ts';

type Mapped = Pick<CompiledSchema, 'tree'> & { readonly mapping: TableMapping };

interface Suspect {
  readonly field: string;
  readonly value: unknown;
  readonly column: MappedColumn;
}

/** The same refusal with the name of the field, where it can only be one; anything else comes back as it is. */
export function withMisfit(schema: Mapped, row: ColumnValues, error: unknown): unknown {
  if (!(error instanceof PenstockError) || error.errors) return error;
  const kind = [mappedErrors.RULE_BROKEN, recordErrors.RECORD_INVALID].find(({ code }) => code === error.code);
  const [found, ...others] = kind ? culprits(suspectsOf(schema, row), error.cause) : [];
  if (!kind || !found || others.length > 0) return error;
  const problem: Problem = { path: found.field, rule: 'type', message: `does not fit ${found.column.type.name}` };
  return kind({ message: `${problem.path}: ${problem.message}`, errors: [problem], cause: error.cause });
}

/** What is given for columns whose own types know more than the field does. */
function suspectsOf({ tree, mapping }: Mapped, { columns, values }: ColumnValues): readonly Suspect[] {
  return columns.flatMap(({ name }, i) => {
    const [column, value] = [mapping.columns[name], values[i]];
    if (!column || value === null || value === undefined || value === tableDefault) return [];
    return column.form !== 'plain' || tree.fields.get(name)?.kind === 'number' ? [{ field: name, value, column }] : [];
  });
}

function culprits(suspects: readonly Suspect[], cause: unknown): readonly Suspect[] {
  const { message = '', dataType } = cause as { readonly message?: string; readonly dataType?: string };
  if (dataType !== undefined) return suspects.filter(({ column }) => column.type.name === dataType);
  if (suspects.length === 1) return suspects;
  return suspects.filter(({ value }) => value !== '' && ['string', 'number'].includes(typeof value) && message.includes(`"${value}"`));
}
