/** Reads the default of a field; it must be a value that the field would accept. */
import type { Problem } from '../../../kernel/errors.ts';
import type { Field } from './field.ts';
import { checkerOf } from './values.ts';

export interface OptionContext {
  readonly options: Record<string, unknown>;
  readonly path: string;
  readonly depth: number;
  readonly inArray: boolean;
  report(path: string, rule: string, message: string): undefined;
}

export const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function readDefault(context: OptionContext, field: Field): Field {
  const value = context.options.default;
  if (value === undefined || value === null) return field;
  const problems: Problem[] = [];
  const normalised = checkerOf(field)(value, `${context.path}.default`, problems);
  for (const problem of problems)
    context.report(problem.path, problem.rule, `the default does not fit: ${problem.message}`);
  return problems.length > 0 ? field : { ...field, default: normalised };
}
